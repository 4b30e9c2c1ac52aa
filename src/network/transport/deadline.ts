/** Waiting for a promise, but not for ever and not past an abort. */

import type { Clock } from '../../base/async.ts';
import { onAbort } from '../../base/async.ts';

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
