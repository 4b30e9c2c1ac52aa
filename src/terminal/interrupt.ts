/** Ctrl-C as a signal: the first one ends things in order, a second one ends the process at once. */

export interface Interrupt {
  readonly signal: AbortSignal;
  dispose(): void;
}

/** Thrown where work was cut short on request. */
export class Interrupted extends Error {
  override readonly name = 'AbortError';
}

export function onInterrupt(): Interrupt {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort(new Interrupted('interrupted'));
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return {
    signal: controller.signal,
    dispose() {
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
    },
  };
}

/** Does work that Ctrl-C cuts short. */
export async function interruptibly<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, dispose } = onInterrupt();
  try {
    return await work(signal);
  } finally {
    dispose();
  }
}

/** Resolves at Ctrl-C. */
export async function untilInterrupted(): Promise<void> {
  const { signal, dispose } = onInterrupt();
  await new Promise<void>((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  dispose();
}
