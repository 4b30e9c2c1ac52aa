/** Flags for relays: the reference's (how long to wait, how often to try again), and what to assume that they take. */
import type { Command } from 'commander';
import { defaultRetry, type RetryPolicy } from '../base/async.ts';
import { ConfigError } from '../base/errors.ts';
import type { Connection } from '../node/net/relays.ts';
import { real, row, whole } from '../run/field.ts';
import { numeric, positive, whole as wholeOption } from './flags.ts';
import { addOptions } from './options.ts';

export interface ConnectionFlags {
  /** Seconds. */
  readonly timeout: number;
  readonly relayRetries?: number;
  readonly relayRetryBackoff?: number;
  readonly relayRetryBackoffMax?: number;
  readonly relayRetryBackoffMultiplier?: number;
  readonly relayRate?: number;
  readonly relayMaxEventBytes?: number;
  readonly relayCopies?: number;
}

/** How often to try a relay again: flags of the Python reference, which `nostrain help python` lists. */
const retryFlags = () => [
  wholeOption('--relay-retries <n>', 'tries after the first one', 0),
  numeric('--relay-retry-backoff <s>', 'seconds before the first retry', 0),
  numeric('--relay-retry-backoff-max <s>', 'longest wait; 0 for no cap', 0),
  numeric('--relay-retry-backoff-multiplier <x>', 'growth of the wait', 1),
];

/** Adds `--timeout`, the retry flags and what relays are assumed to take. */
export function addConnectionFlags(command: Command): Command {
  const timeout = positive('--timeout <s>', 'seconds to wait for a relay').default(10);
  command.addOption(timeout.helpGroup('Network:'));
  for (const option of retryFlags()) command.addOption(option.helpGroup('Network:').hideHelp());
  return addOptions(command, assumed);
}

/** What to assume of relays. */
const assumed = {
  relayRate: row(
    'events per minute to begin with at every relay; 0 for no limit (default: 5 at public relays, no limit at private addresses)',
    real(0, 1e9),
  ),
  relayMaxEventBytes: row(
    'largest event to try at every relay; 0 for no limit (default: 65536 at public relays, no limit at private addresses)',
    whole(),
  ),
  relayCopies: row(
    'redundancy: relays of those given that are read, chosen by the key, so that each event arrives that often; own events go to all (default: all)',
    whole(),
  ),
} as const;

/** The flags of `addConnectionFlags`, for commands that may ask no relay. */
export const connectionFlagNames: readonly string[] = [
  'relay',
  'timeout',
  'relayRetries',
  'relayRetryBackoff',
  'relayRetryBackoffMax',
  'relayRetryBackoffMultiplier',
  ...Object.keys(assumed),
];

/** What the flags say; where one is left out the relay set decides. */
export function connectionOf(flags: ConnectionFlags): Connection {
  const { timeout, relayRate, relayMaxEventBytes, relayCopies } = flags;
  return {
    openTimeoutMs: timeout * 1000,
    retry: retryOf(flags),
    ...(relayRate === undefined ? {} : { eventsPerMinute: relayRate }),
    ...(relayMaxEventBytes === undefined ? {} : { maxEventBytes: relayMaxEventBytes }),
    ...(relayCopies === undefined ? {} : { copies: relayCopies }),
  };
}

/** Exact waits as soon as one of the retry flags is given, with the reference's defaults for the rest; else ours, with jitter. */
function retryOf(flags: ConnectionFlags): RetryPolicy {
  const { relayRetries, relayRetryBackoff, relayRetryBackoffMax } = flags;
  const { relayRetryBackoffMultiplier } = flags;
  const given = [relayRetries, relayRetryBackoff, relayRetryBackoffMax];
  if ([...given, relayRetryBackoffMultiplier].every((value) => value === undefined)) {
    return defaultRetry;
  }
  return exactRetry(flags, 'flag/retry');
}

/** The policy that the retry flags describe, with exact waits; throws by that code where the longest is shorter than the first. */
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
