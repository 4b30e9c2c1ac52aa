/** Flags for relay connections: timeouts and retries as in the Python reference, and assumed limits of relays. */
import { defaultRetry, type RetryPolicy } from '../base/async.ts';
import { ConfigError } from '../base/errors.ts';
import type { Connection } from '../node/net/relays.ts';
import { real, row, whole as wholeField } from '../run/field.ts';
import { type FlagValues, numeric, positive, setting, whole, withDefault } from './flag-table.ts';

const network = { group: 'Network:' };
/** Hidden flags of the Python reference; `nostrain help python` lists them. */
const retry = { ...network, isHidden: true };

export const connectionFlags = {
  timeout: { ...withDefault(positive('<s>', 'seconds to wait for a relay'), 10), ...network },
  relayRetries: { ...whole('<n>', 'tries after the first one', 0), ...retry },
  relayRetryBackoff: { ...numeric('<s>', 'seconds before the first retry', 0), ...retry },
  relayRetryBackoffMax: { ...numeric('<s>', 'longest wait; 0 for no cap', 0), ...retry },
  relayRetryBackoffMultiplier: { ...numeric('<x>', 'growth of the wait', 1), ...retry },
  relayRate: setting(
    row(
      'initial events per minute for every relay; 0 for no limit (default: 5 for public ' +
        'relays, no limit for private addresses)',
      real(0, 1e9),
    ),
  ),
  relayMaxEventBytes: setting(
    row(
      'maximum event size to try on every relay; 0 for no limit (default: 65536 for public ' +
        'relays, no limit for private addresses)',
      wholeField(),
    ),
  ),
  relayCopies: setting(
    row(
      'redundancy: number of the given relays to read from, chosen by key, so that each ' +
        'event arrives that often; own events go to all relays (default: all)',
      wholeField(),
    ),
  ),
};

export type ConnectionFlags = FlagValues<typeof connectionFlags>;

/** Names of the connection flags, for commands that may not need a relay. */
export const connectionFlagNames: readonly string[] = ['relay', ...Object.keys(connectionFlags)];

/** Returns the connection options of the flags; the relay set decides those that are not given. */
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

/**
 * If a retry flag is given: exact waits with the reference's defaults for the others; otherwise our policy, with
 * jitter.
 */
function retryOf(flags: ConnectionFlags): RetryPolicy {
  const { relayRetries, relayRetryBackoff, relayRetryBackoffMax } = flags;
  const { relayRetryBackoffMultiplier } = flags;
  const given = [relayRetries, relayRetryBackoff, relayRetryBackoffMax];
  if ([...given, relayRetryBackoffMultiplier].every((value) => value === undefined)) {
    return defaultRetry;
  }
  return exactRetry(flags, 'flag/retry');
}

/** Returns the policy of the retry flags, with exact waits. Throws if the longest wait is shorter than the first. */
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
      `--relay-retry-backoff-max ${most} is below --relay-retry-backoff ${backoff}`,
      { hint: 'use a longer one, or 0 for no cap' },
    );
  }
  const maxMs = most === 0 ? Number.POSITIVE_INFINITY : most * 1000;
  const initialMs = backoff * 1000;
  return { maxAttempts: relayRetries + 1, initialMs, maxMs, multiplier, jitter: 'none' };
}
