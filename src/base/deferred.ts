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
