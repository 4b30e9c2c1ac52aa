/** Things with a life, ended together: what was opened last is closed first, also when opening the next one failed. */

export interface Scope {
  /** Calls `close` when the scope ends. */
  defer(close: () => Promise<unknown> | unknown): void;
}

/** Runs `work` and then closes everything it deferred, whatever happened. */
export async function withScope<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const closers: (() => Promise<unknown> | unknown)[] = [];
  try {
    return await work({ defer: (close) => void closers.push(close) });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}
