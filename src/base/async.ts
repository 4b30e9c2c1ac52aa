/** Waiting and stopping: clocks, abort signals, deferred promises, races, notifications, scopes, retry delays. */

/** A source of time. Code that waits takes a clock as an argument, so that tests control time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms` milliseconds. Rejects with `signal.reason` if aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The clock of this machine, with real timers. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    abortable(signal, (resolve) => {
      const timer = setTimeout(resolve, ms);
      return () => clearTimeout(timer);
    }),
};

/** Sleeps and returns true, or returns false if aborted first. */
export const slept = (clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> =>
  clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );

/** Resolves when `start` calls back. If aborted first, calls the function that `start` returned and rejects. */
const abortable = (
  signal: AbortSignal | undefined,
  start: (resolve: () => void) => () => void,
): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    let release: (() => void) | undefined;
    const cancel = start(() => {
      release?.();
      resolve();
    });
    release =
      signal &&
      onAbort(signal, () => {
        cancel();
        reject(signal.reason);
      });
  });

/** Callbacks of each signal. One listener per signal runs them all: platforms warn about many listeners. */
const callbacksOf = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when the signal aborts, unless it has aborted already. Returns a function that cancels the callback. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const callbacks = callbacksOf.get(signal) ?? new Set();
  if (!callbacksOf.has(signal)) {
    callbacksOf.set(signal, callbacks);
    signal.addEventListener('abort', () => {
      for (const each of callbacks) each();
    });
  }
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}

/**
 * Aborts with the first of these signals; `release` detaches it, and `end` also aborts it. Unlike `AbortSignal.any`,
 * Node 20 does not leak it.
 */
export function anySignal(...sources: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  release(): void;
  end(reason?: Error): void;
} {
  const any = new AbortController();
  const releases = sources.map((source) => {
    if (source?.aborted) any.abort(source.reason);
    return source && onAbort(source, () => any.abort(source.reason));
  });
  const release = () => {
    for (const each of releases) each?.();
  };
  const end = (reason?: Error) => {
    any.abort(reason);
    release();
  };
  return { signal: any.signal, release, end };
}

/** Takes steps to their end. */
export function atOnce<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Takes steps to their end. Other work on this thread gets its turn after every `count` of them. */
export async function inTurns<T>(steps: Iterator<unknown, T>, count: number): Promise<T> {
  for (let taken = 1; ; taken++) {
    const { done, value } = steps.next();
    if (done) return value;
    if (taken % count === 0) await systemClock.sleep(0);
  }
}

/** A promise with its `resolve` function exposed. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  /** Resolves the promise; calls after the first have no effect. */
  settle(value: T): void;
}

export function deferred<T>(): Deferred<T> {
  let settle: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    settle = resolve;
  });
  return { promise, settle: (value) => settle(value) };
}

/** One race that is waiting for a promise. */
interface Waiter {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

/** Races waiting for each promise; `races` is undefined once the promise has settled. */
const waiting = new WeakMap<Promise<unknown>, { races: Set<Waiter> | undefined }>();

/** Like `Promise.race`, for promises that outlive many races: a finished race leaves no handlers on the losers. */
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

/** Tells waiters that something changed. It carries no state: each waiter checks again for itself. */
export interface Notifier {
  /** Wakes all current waiters. */
  notify(): void;
  /** Resolves at the next `notify`. Rejects with `signal.reason` if aborted first. */
  next(signal: AbortSignal): Promise<void>;
}

/** Returns a notifier without waiters. */
export function createNotifier(): Notifier {
  const waiting = new Set<() => void>();
  return {
    notify() {
      const woken = [...waiting];
      waiting.clear();
      for (const wake of woken) wake();
    },
    next: (signal) =>
      abortable(signal, (wake) => {
        waiting.add(wake);
        return () => waiting.delete(wake);
      }),
  };
}

/** A background activity that runs until `stop` is called. */
export interface Watch {
  stop(): Promise<void>;
}

/** Calls `check` now and after every `notify` until stopped. Notifications during `rest` lead to one `check`. */
export function watchChanges(
  changed: Pick<Notifier, 'next'>,
  check: () => void,
  rest: (signal: AbortSignal) => Promise<void> | undefined = () => undefined,
): Watch {
  const stopping = new AbortController();
  async function keepChecking(): Promise<void> {
    while (!stopping.signal.aborted) {
      check();
      const { signal } = stopping;
      const next = changed.next(signal).catch(() => undefined);
      await rest(signal)?.catch(() => undefined);
      await next;
    }
  }
  const checking = keepChecking();
  return {
    async stop() {
      stopping.abort(OVER);
      await checking;
    },
  };
}

/** Abort reason for waits that nothing needs any longer. Without a reason each abort would create an exception. */
const OVER = new Error('over');

/** Waits for the next `notify` or until the clock reads `untilMs`. Rejects with `signal.reason` if aborted. */
export async function notifiedOrDeadline(
  notifier: Notifier,
  clock: Clock,
  untilMs: number,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const done = anySignal(signal);
  const waits = [
    notifier.next(done.signal),
    clock.sleep(Math.max(0, untilMs - clock.now()), done.signal),
  ];
  try {
    await Promise.race(waits);
  } finally {
    done.end(OVER);
    await Promise.allSettled(waits);
  }
}

/** Closes resources in reverse order of opening, even if opening a later one fails. */
export interface Scope {
  /** Registers `close` to run when the scope ends. */
  defer(close: () => Promise<unknown> | unknown): void;
}

/** Runs `work`, then closes everything that it deferred, even if it throws. */
export async function withScope<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const closers: (() => Promise<unknown> | unknown)[] = [];
  try {
    return await work({ defer: (close) => void closers.push(close) });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

/** When to retry, with exponential backoff; the caller waits on its `Clock`. */
export interface RetryPolicy {
  /** Attempts in all, including the first: 1 means no retry. */
  readonly maxAttempts: number;
  /** Delay after the first failure, in milliseconds. */
  readonly initialMs: number;
  /** Longest delay, in milliseconds; `Infinity` for no limit. */
  readonly maxMs: number;
  /** Factor by which the delay grows after each failure, at least 1. */
  readonly multiplier: number;
  /** `full` draws each delay uniformly from 0 to the computed one, so that many workers do not retry at once. */
  readonly jitter: 'full' | 'none';
}

/** Four attempts; random delays of up to 0.25 s at first, up to 2 s later. */
export const defaultRetry: RetryPolicy = {
  maxAttempts: 4,
  initialMs: 250,
  maxMs: 2000,
  multiplier: 2,
  jitter: 'full',
};

/** Returns the delay in milliseconds after `failures` failures in a row (from 1); `random` draws from [0, 1). */
export function backoffMs(policy: RetryPolicy, failures: number, random: () => number): number {
  if (policy.initialMs === 0) return 0;
  const grown = policy.initialMs * policy.multiplier ** (failures - 1);
  const ms = Math.min(policy.maxMs, grown);
  return policy.jitter === 'full' ? ms * random() : ms;
}

/** Returns the promise's value, or undefined after `ms` milliseconds. Rejects with `signal.reason` if aborted. */
export async function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<T | undefined> {
  signal?.throwIfAborted();
  const stop = anySignal(signal);
  try {
    return await Promise.race([promise, clock.sleep(ms, stop.signal).then(() => undefined)]);
  } finally {
    stop.end(OVER);
  }
}

/** Resolves true as soon as one promise is true, false if none is; a rejected promise counts as false. */
export async function anyTrue(answers: readonly Promise<boolean>[]): Promise<boolean> {
  const yes = answers.map(async (answer) => {
    if (!(await answer)) throw new Error('no');
  });
  return Promise.any(yes).then(
    () => true,
    () => false,
  );
}

/** Returns the promise's value. Rejects with `signal.reason` if aborted first. */
export async function unlessAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  signal.throwIfAborted();
  let release = () => {};
  const aborted = new Promise<never>((_, reject) => {
    release = onAbort(signal, () => reject(signal.reason));
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    release();
  }
}
