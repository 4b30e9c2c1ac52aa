/** What follows when a signal aborts, and signals that follow several: nothing of it stays in memory when it is over. */

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

/**
 * Aborts as soon as one of the signals does, for the same reason; `release` lets go of them. In place of `AbortSignal.any`, whose signals Node 20
 * keeps for ever once somebody listened, with all that their reason's stack holds.
 */
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
