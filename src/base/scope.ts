/** Closes resources together in reverse order of opening, also when opening a later one fails. */

export interface Scope {
  /** Calls `close` when the scope ends. */
  defer(close: () => Promise<unknown> | unknown): void;
}

/** Runs `work`, then closes everything it deferred, also after an error. */
export async function withScope<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const closers: (() => Promise<unknown> | unknown)[] = [];
  try {
    return await work({ defer: (close) => void closers.push(close) });
  } finally {
    for (const close of closers.reverse()) await close();
  }
}
