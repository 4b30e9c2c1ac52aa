/** Flags for relays: the reference's (how long to wait, how often to try again), and what to assume that they take. */
import type { Command } from 'commander';
import { defaultRetry, type RetryPolicy } from '../base/async.ts';
import { ConfigError } from '../base/errors.ts';
import type { Connection } from '../node/net/relays.ts';
import { real, row, whole as wholeField } from '../run/field.ts';
import {
  addFlags,
  type FlagValues,
  numeric,
  positive,
  setting,
  whole,
  withDefault,
} from './flag-table.ts';

const network = { group: 'Network:' };
/** Flags of the Python reference, which `nostrain help python` lists. */
const retry = { ...network, isHidden: true };

/** How long to wait for a relay in seconds, how often to try it again, and what to assume of it. */
export const connectionFlags = {
  timeout: { ...withDefault(positive('<s>', 'seconds to wait for a relay'), 10), ...network },
  relayRetries: { ...whole('<n>', 'tries after the first one', 0), ...retry },
  relayRetryBackoff: { ...numeric('<s>', 'seconds before the first retry', 0), ...retry },
  relayRetryBackoffMax: { ...numeric('<s>', 'longest wait; 0 for no cap', 0), ...retry },
  relayRetryBackoffMultiplier: { ...numeric('<x>', 'growth of the wait', 1), ...retry },
  relayRate: setting(
    row(
      'events per minute to begin with at every relay; 0 for no limit (default: 5 at public ' +
        'relays, no limit at private addresses)',
      real(0, 1e9),
    ),
  ),
  relayMaxEventBytes: setting(
    row(
      'largest event to try at every relay; 0 for no limit (default: 65536 at public relays, ' +
        'no limit at private addresses)',
      wholeField(),
    ),
  ),
  relayCopies: setting(
    row(
      'redundancy: relays of those given that are read, chosen by the key, so that each event ' +
        'arrives that often; own events go to all (default: all)',
      wholeField(),
    ),
  ),
};

export type ConnectionFlags = FlagValues<typeof connectionFlags>;

export const addConnectionFlags = (command: Command): Command => addFlags(command, connectionFlags);

/** The flags of connections, for commands that may ask no relay. */
export const connectionFlagNames: readonly string[] = ['relay', ...Object.keys(connectionFlags)];

/** What the flags say; where one is left out the relay set decides. */
export function connectionOf(flags: ConnectionFlags): Connection {
  const { timeout, relayRate, relayMaxEventBytes, relayCopies } = flags;
  return {
    openTimeoutMs: timeout * 1000,
    retry: retryOf(flags),
    ...(relayRate === undefined ? {} : { eventsPerMinute: relayRate }),
    ...(relayMaxEventBytes === undefined ? {} : { maxEventBytes: relayMaxEventBytes }),
    ...(relayCopies === undefined ? {} : { redundancy: relayCopies }),
  };
}

/** Exact waits if a retry flag is given, with the reference's defaults for the rest; else ours, with jitter. */
function retryOf(flags: ConnectionFlags): RetryPolicy {
  const { relayRetries, relayRetryBackoff, relayRetryBackoffMax } = flags;
  const { relayRetryBackoffMultiplier } = flags;
  const given = [relayRetries, relayRetryBackoff, relayRetryBackoffMax];
  if ([...given, relayRetryBackoffMultiplier].every((value) => value === undefined)) {
    return defaultRetry;
  }
  return exactRetry(flags, 'flag/retry');
}

/** The policy of the retry flags, with exact waits; throws if the longest is shorter than the first. */
export function exactRetry(
  {
    relayRetries = 0,
    relayRetryBackoff: backoff = 0.25,
    relayRetryBackoffMax: most = 2,
    relayRetryBackoffMultiplier: multiplier = 2,
  }: Omit<ConnectionFlags, 'timeout'>,
  code: string,
): RetryPolicy {
  if (most !== 0 && most < backoff) {
    throw new ConfigError(
      code,
      `--relay-retry-backoff-max ${most} is under --relay-retry-backoff ${backoff}`,
      { hint: 'give a longer one, or 0 for no cap' },
    );
  }
  const maxMs = most === 0 ? Number.POSITIVE_INFINITY : most * 1000;
  const initialMs = backoff * 1000;
  return { maxAttempts: relayRetries + 1, initialMs, maxMs, multiplier, jitter: 'none' };
}
