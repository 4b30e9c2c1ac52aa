/** Ctrl-C as a signal: the first one ends the work in order, the second one ends the process at once. */
import { exitCodes } from './output.ts';

export interface Interrupt {
  readonly signal: AbortSignal;
  dispose(): void;
}

/** Thrown when the user interrupts the work. */
export class Interrupted extends Error {
  override readonly name = 'AbortError';
  /** Exit code that shells expect of a program ended by a signal: 130 after Ctrl-C, 143 after SIGTERM. */
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM' = 'SIGINT') {
    super('interrupted');
    const { interrupted, terminated } = exitCodes;
    this.exitCode = (signal === 'SIGINT' ? interrupted : terminated).code;
  }
}

export function onInterrupt(): Interrupt {
  const controller = new AbortController();
  const stop = (signal: 'SIGINT' | 'SIGTERM') => {
    const reason = new Interrupted(signal);
    if (controller.signal.aborted) process.exit(reason.exitCode);
    controller.abort(reason);
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

/** Runs work that Ctrl-C aborts. */
export async function interruptibly<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, dispose } = onInterrupt();
  try {
    return await work(signal);
  } finally {
    dispose();
  }
}

/** Resolves at Ctrl-C. Call it before printing that the program is ready, because Ctrl-C may follow immediately. */
export async function untilInterrupted(): Promise<void> {
  const { signal, dispose } = onInterrupt();
  await new Promise<void>((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  dispose();
}
