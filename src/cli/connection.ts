/** The reference's flags for reaching relays: how long to wait, how often to try again. */
import type { Command } from 'commander';
import { ConfigError } from '../base/errors.ts';
import { defaultRetry, type RetryPolicy } from '../base/retry.ts';
import { positiveFlag, wholeFlag } from './flags.ts';

export interface ConnectionFlags {
  /** Seconds. */
  readonly timeout: number;
  readonly relayRetries?: number;
  readonly relayRetryBackoff?: number;
  readonly relayRetryBackoffMax?: number;
  readonly relayRetryBackoffMultiplier?: number;
}

export interface Connection {
  readonly openTimeoutMs: number;
  readonly retry: RetryPolicy;
}

const atLeast = (flag: string, least: number) => (text: string) => {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= least) return value;
  throw new ConfigError(
    'flag/value',
    `${flag} is ${JSON.stringify(text)}; it must be a number from ${least}`,
  );
};

/** Adds `--timeout` and the four `--relay-retry` flags. */
export const addConnectionFlags = (command: Command): Command =>
  command
    .option('--timeout <s>', 'seconds to wait for a relay to answer', positiveFlag('--timeout'), 10)
    .option('--relay-retries <n>', 'tries after the first one', wholeFlag('--relay-retries', 0))
    .option(
      '--relay-retry-backoff <s>',
      'seconds before the first retry',
      atLeast('--relay-retry-backoff', 0),
    )
    .option(
      '--relay-retry-backoff-max <s>',
      'longest wait; 0 for no cap',
      atLeast('--relay-retry-backoff-max', 0),
    )
    .option(
      '--relay-retry-backoff-multiplier <x>',
      'growth of the wait',
      atLeast('--relay-retry-backoff-multiplier', 1),
    );

/** Exact waits as soon as one of the retry flags is given, with the reference's defaults for the rest; else ours, with jitter. */
export function connectionOf(flags: ConnectionFlags): Connection {
  const openTimeoutMs = flags.timeout * 1000;
  const { relayRetries, relayRetryBackoff, relayRetryBackoffMax, relayRetryBackoffMultiplier } =
    flags;
  const given = [
    relayRetries,
    relayRetryBackoff,
    relayRetryBackoffMax,
    relayRetryBackoffMultiplier,
  ];
  if (given.every((value) => value === undefined)) return { openTimeoutMs, retry: defaultRetry };
  const backoff = relayRetryBackoff ?? 0.25;
  const most = relayRetryBackoffMax ?? 2;
  if (most !== 0 && most < backoff) {
    throw new ConfigError(
      'flag/retry',
      `--relay-retry-backoff-max ${most} is under --relay-retry-backoff ${backoff}`,
    );
  }
  return {
    openTimeoutMs,
    retry: {
      maxAttempts: (relayRetries ?? 0) + 1,
      initialMs: backoff * 1000,
      maxMs: most === 0 ? Number.POSITIVE_INFINITY : most * 1000,
      multiplier: relayRetryBackoffMultiplier ?? 2,
      jitter: 'none',
    },
  };
}
