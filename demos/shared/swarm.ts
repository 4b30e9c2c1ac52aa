/** Worker processes of a demo: `nostrain run-training` started once per name, their events read line by line. */
import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { deferred } from '../../src/base/deferred.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';

export interface WorkerProcess {
  readonly name: string;
  readonly args: readonly string[];
  /** Started once the others are there. */
  readonly isLate?: boolean;
}

export interface Exit {
  readonly name: string;
  readonly code: number;
  /** The end of what it wrote to stderr. */
  readonly words: string;
  /** Ended because it was asked to. */
  readonly stopped: boolean;
}

const STDERR_KEPT = 4000;

/**
 * Runs all workers to their end. When the signal aborts, or one of them fails, the others are asked to stop and given
 * time to say goodbye: without it they could only wait for it.
 */
export async function runSwarm(
  workers: readonly WorkerProcess[],
  onEvent: (name: string, event: RunEvent) => void,
  signal: AbortSignal,
): Promise<readonly Exit[]> {
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  const awaited = new Set(workers.filter(({ isLate }) => !isLate).map(({ name }) => name));
  const { promise: ready, settle } = deferred<void>();
  if (awaited.size === 0 || either.aborted) settle();
  else either.addEventListener('abort', () => settle(), { once: true });
  const hear = (name: string, event: RunEvent) => {
    if (event.type === 'hello' && awaited.delete(name) && awaited.size === 0) settle();
    onEvent(name, event);
  };
  const play = async (worker: WorkerProcess): Promise<Exit> => {
    if (worker.isLate) await ready;
    if (either.aborted) return { name: worker.name, code: 0, words: '', stopped: true };
    const exit = await runOne(worker, hear, either);
    const stopped = either.aborted;
    if (exit.code !== 0) failing.abort();
    return { ...exit, stopped };
  };
  return Promise.all(workers.map(play));
}

function runOne(
  worker: WorkerProcess,
  onEvent: (name: string, event: RunEvent) => void,
  signal: AbortSignal,
): Promise<Omit<Exit, 'stopped'>> {
  const { exit, kill } = startWorker(worker, onEvent);
  const stop = () => kill('SIGINT');
  signal.addEventListener('abort', stop, { once: true });
  return exit.finally(() => signal.removeEventListener('abort', stop));
}

export interface Running {
  readonly exit: Promise<Omit<Exit, 'stopped'>>;
  kill(signal: 'SIGINT' | 'SIGKILL'): void;
}

/** Starts one worker; nothing but its own end or a kill stops it. */
export function startWorker(
  { name, args }: WorkerProcess,
  onEvent: (name: string, event: RunEvent) => void,
): Running {
  const child = startSelf(args);
  let words = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    words = (words + text).slice(-STDERR_KEPT);
  });
  const lines = createInterface({ input: child.stdout! });
  lines.on('line', (line) => {
    const event = parseEvent(line);
    if (event) onEvent(name, event);
  });
  const exit = new Promise<Omit<Exit, 'stopped'>>((resolve) => {
    child.on('close', (code) => resolve({ name, code: code ?? 1, words: words.trim() }));
    child.on('error', (error) => resolve({ name, code: 1, words: error.message }));
  });
  return { exit, kill: (signal) => void child.kill(signal) };
}

/** This very program again, from the sources or as built. In its own group, so that Ctrl-C reaches it once, through us. */
function startSelf(args: readonly string[]): ChildProcess {
  const main = fileURLToPath(
    new URL(`../../src/cli/bin${extname(import.meta.url)}`, import.meta.url),
  );
  return spawn(process.execPath, [...process.execArgv, main, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  });
}

function parseEvent(line: string): RunEvent | undefined {
  try {
    // JSON has no NaN: it was written as null
    return JSON.parse(line, (_, value: unknown) => (value === null ? Number.NaN : value));
  } catch {
    return undefined;
  }
}
