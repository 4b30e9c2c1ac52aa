/** A promise with its `resolve` function outside. */

export interface Deferred<T> {
  readonly promise: Promise<T>;
  /** Only the first call counts. */
  settle(value: T): void;
}

export function deferred<T>(): Deferred<T> {
  let settle: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, settle: (value) => settle(value) };
}

/** One race that waits for a promise. */
interface Waiter {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

/** Races by the promises they wait for; undefined in place of the set once that has settled. */
const waiting = new WeakMap<Promise<unknown>, { races: Set<Waiter> | undefined }>();

/**
 * As `Promise.race`, for promises that outlive many races: a race that is over leaves nothing behind at those that lost it. Of `Promise.race` the
 * value stays in memory for as long as any of them is pending.
 */
export function firstOf<T>(contenders: readonly Promise<T>[]): Promise<T> {
  let race: Waiter | undefined;
  const first = new Promise<T>((resolve, reject) => {
    race = { resolve: resolve as (value: unknown) => void, reject };
    for (const each of contenders) {
      const races = racesAt(each);
      if (races) races.add(race);
      else each.then(resolve, reject);
    }
  });
  const leave = () => {
    for (const each of contenders) waiting.get(each)?.races?.delete(race!);
  };
  first.then(leave, leave);
  return first;
}

function racesAt(promise: Promise<unknown>): Set<Waiter> | undefined {
  const known = waiting.get(promise);
  if (known) return known.races;
  const kept: { races: Set<Waiter> | undefined } = { races: new Set() };
  waiting.set(promise, kept);
  const settle = (tell: (race: Waiter) => void) => {
    const { races = [] } = kept;
    kept.races = undefined;
    for (const race of races) tell(race);
  };
  promise.then(
    (value) => settle((race) => race.resolve(value)),
    (reason: unknown) => settle((race) => race.reject(reason)),
  );
  return kept.races;
}
