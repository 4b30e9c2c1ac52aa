/** Waiting for a promise, but not for ever and not past an abort. */
import type { Clock } from '../../base/clock.ts';

/** The promise's value, or undefined when `ms` pass first; rejects with `signal.reason` when aborted. */
export async function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  signal?: AbortSignal,
): Promise<T | undefined> {
  signal?.throwIfAborted();
  const stop = new AbortController();
  const abort = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, clock.sleep(ms, stop.signal).then(() => undefined)]);
  } finally {
    signal?.removeEventListener('abort', abort);
    stop.abort();
  }
}

/** The promise's value; rejects with `signal.reason` when aborted first. */
export async function unlessAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
