/** Waiting for a promise, but not for ever and not past an abort. */
import type { Clock } from '../../base/clock.ts';

/** What each signal's abort sets off; platforms complain about many listeners on one signal, so each gets one. */
const callbacksOf = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when the signal aborts, not when it did before; the function returned takes that back. */
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

/** The promise's value, or undefined when `ms` pass first; rejects with `signal.reason` when aborted. */
export async function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<T | undefined> {
  signal?.throwIfAborted();
  const stop = new AbortController();
  const release = signal && onAbort(signal, () => stop.abort(signal.reason));
  try {
    return await Promise.race([promise, clock.sleep(ms, stop.signal).then(() => undefined)]);
  } finally {
    release?.();
    stop.abort();
  }
}

/** The promise's value; rejects with `signal.reason` when aborted first. */
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

/** Aborts as soon as one of the signals does, for the same reason; `release` lets go of them. */
export function anySignal(...sources: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  release(): void;
} {
  const any = new AbortController();
  const releases = sources.map((source) => {
    if (source?.aborted) any.abort(source.reason);
    return source && onAbort(source, () => any.abort(source.reason));
  });
  return {
    signal: any.signal,
    release: () => {
      for (const release of releases) release?.();
    },
  };
}
