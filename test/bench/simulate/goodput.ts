/** Contributions that rounds count in an hour, for simulated runs and worlds alike. */

/** A finished round. */
export interface TimedRound {
  /** Contributions that its outcome counts. */
  readonly accepted: number;
  /** Seconds after the start at which the median worker had its outcome: a worker that is away then delays nothing. */
  readonly medianSeconds: number;
}

/** Returns the contributions counted in an hour, until the last of these rounds; 0 if there is none. */
export function goodputOf(rounds: readonly TimedRound[]): number {
  const last = rounds.at(-1);
  return last ? perHour(rounds, last.medianSeconds) : 0;
}

/**
 * Returns the same without the first two rounds, in which no worker is killed and nothing can be late, and without the
 * last one, after which nothing counts; undefined if no round is left.
 */
export function goodputBetween(rounds: readonly TimedRound[]): number | undefined {
  const [from, to] = [rounds[1], rounds.at(-2)];
  if (!from || !to || rounds.length < 4) return undefined;
  return perHour(rounds.slice(2, -1), to.medianSeconds - from.medianSeconds);
}

const perHour = (rounds: readonly TimedRound[], seconds: number): number =>
  (3600 * rounds.reduce((sum, { accepted }) => sum + accepted, 0)) / seconds;
