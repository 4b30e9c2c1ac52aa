/** Starts and stops the worker processes of a demo, builds their command lines, and reads their events. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { RunEvent } from 'nostrain/certified';
import { deferred } from '../../src/base/async.ts';
import { dashed } from '../../src/run/field.ts';
import {
  isSetting,
  type PartialSettings,
  typedWords,
  writeSettings,
} from '../../src/run/settings.ts';

export interface WorkerProcess {
  readonly name: string;
  readonly args: readonly string[];
  /** Start it only after the `hello` events of all workers that are not late. */
  readonly isLate?: boolean;
}

export interface Exit {
  readonly name: string;
  readonly code: number;
  /** The end of its stderr. */
  readonly words: string;
  /** The demo stopped it. */
  readonly stopped: boolean;
}

export interface Running {
  readonly exit: Promise<Exit>;
  kill(signal: 'SIGINT' | 'SIGKILL'): void;
}

export type OnEvent = (name: string, event: RunEvent) => void;

type FlagValue = string | number | boolean | undefined | readonly string[];

/** `{ waitFor: 4, relay: ['a', 'b'], evaluate: undefined }` as `--set waitFor=4 --relay a --relay b`. */
export const asFlags = (values: Readonly<Record<string, FlagValue>>): readonly string[] =>
  Object.entries(values).flatMap(([name, value]) => {
    if (value === undefined || value === false) return [];
    if (isSetting(name)) return [value].flat().flatMap((one) => typedWords(name, `${one}`));
    const flag = dashed(name);
    if (value === true) return [flag];
    return [value].flat().flatMap((one) => [flag, `${one}`]);
  });

export interface WorkerLine {
  /** The folder of this worker, which also holds its key. */
  readonly folder: string;
  readonly workers: number;
  readonly relays: readonly string[];
  readonly corpus: string | undefined;
  /** Whether it evaluates; one worker does so for all with the same model. */
  readonly evaluates: boolean;
  /** Number of threads; by default an equal part of the cores. */
  readonly threads?: number;
}

/** Returns the flags that all workers of all demos have. */
const workerFlags = ({ folder, workers, threads, ...line }: WorkerLine) =>
  asFlags({
    dir: folder,
    threads: threads ?? Math.max(1, Math.floor(availableParallelism() / workers)),
    report: 'ndjson',
    relay: line.relays,
    corpus: line.corpus,
    noEvaluate: !line.evaluates,
  });

/** Writes the shared settings of all workers to a file for `trainLine`. */
export async function keepSettings(dir: string, settings: PartialSettings): Promise<string> {
  const file = join(dir, 'settings.json');
  await writeFile(file, `${JSON.stringify(writeSettings(settings), null, 2)}\n`);
  return file;
}

/** Returns the command line of an averaging worker; `more` are flags in camelCase. */
export const trainLine = (
  settings: string,
  line: WorkerLine,
  more: Readonly<Record<string, FlagValue>>,
): readonly string[] => ['run-training', ...workerFlags(line), ...asFlags({ settings, ...more })];

/** Returns the command line that joins a certified run; `more` are flags in camelCase. */
export const joinLine = (
  spec: string,
  line: WorkerLine,
  more: Readonly<Record<string, FlagValue>> = {},
): readonly string[] => [
  'run',
  'join',
  spec,
  ...workerFlags(line),
  ...asFlags({
    keyFile: join(line.folder, 'key'),
    waitFor: line.workers,
    heartbeatInterval: 10,
    ...more,
  }),
];

/** Runs all workers to their end. If the signal aborts or one fails, all are stopped, since the others would wait. */
export async function runSwarm(
  workers: readonly WorkerProcess[],
  onEvent: OnEvent,
  signal: AbortSignal,
): Promise<readonly Exit[]> {
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  const awaited = new Set(workers.filter(({ isLate }) => !isLate).map(({ name }) => name));
  const { promise: ready, settle } = deferred<void>();
  if (awaited.size === 0 || either.aborted) settle();
  else either.addEventListener('abort', () => settle(), { once: true });
  const receive: OnEvent = (name, event) => {
    if (event.type === 'hello' && awaited.delete(name) && awaited.size === 0) settle();
    onEvent(name, event);
  };
  const play = async (worker: WorkerProcess): Promise<Exit> => {
    if (worker.isLate) await ready;
    if (either.aborted) return { name: worker.name, code: 0, words: '', stopped: true };
    const { exit, kill } = startWorker(worker, receive);
    const stop = () => kill('SIGINT');
    either.addEventListener('abort', stop, { once: true });
    const end = await exit;
    either.removeEventListener('abort', stop);
    const stopped = either.aborted;
    if (end.code !== 0) failing.abort();
    return { ...end, stopped };
  };
  return Promise.all(workers.map(play));
}

/** Maximum characters of stderr that are kept. */
const STDERR_KEPT = 4000;

/** Starts one worker in its own process group, so that Ctrl-C reaches it only through `kill`. */
export function startWorker({ name, args }: WorkerProcess, onEvent: OnEvent): Running {
  // the same program, from sources or from the build
  const bin = new URL(`../../src/cli/bin${extname(import.meta.url)}`, import.meta.url);
  const child = spawn(process.execPath, [...process.execArgv, fileURLToPath(bin), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  });
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    words = (words + text).slice(-STDERR_KEPT);
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const event = parseLine<RunEvent>(line);
    if (event) onEvent(name, event);
  });
  const exit = new Promise<Exit>((resolve) => {
    const end = (code: number, text: string) =>
      resolve({ name, code, words: text, stopped: false });
    child.on('close', (code) => end(code ?? 1, words.trim()));
    child.on('error', (error) => end(1, error.message));
  });
  return { exit, kill: (signal) => void child.kill(signal) };
}

/** Parses a JSON line of this program, in which null means NaN; undefined for any other line. */
export function parseLine<T>(line: string): T | undefined {
  try {
    return JSON.parse(line, (_, value: unknown) => (value === null ? Number.NaN : value));
  } catch {
    return undefined;
  }
}
