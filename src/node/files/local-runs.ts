/** Lists the runs in the data folder of this machine with their progress, and finds the run that a name stands for. */

import type { Dirent } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { isObject, type Untyped } from '../../base/shape.ts';
import type { CertifiedSummary } from '../../certified/rounds/events.ts';
import { readCanonical } from '../../certified/wire/runs.ts';
import { lossUnitOf } from '../../run/data-forms.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { MAX_HEADER_BYTES, readSafetensorsHeader } from '../../tensor/safetensors.ts';
import {
  noMembers,
  parseRecord,
  parseRound,
  STATE_TENSOR_PREFIX,
} from '../../worker/state-file.ts';
import { kindOf } from './atomic-file.ts';
import { dataHome } from './data-home.ts';
import { lockOwner, logsIn } from './run-folder.ts';

/** A run, or a demo with all its workers. */
export interface LocalRun {
  readonly name: string;
  /** The word that commands accept for it: its name if unique, else its folder. */
  readonly word: string;
  /** `python` uses nostrain/0; a demo has several workers, and shows the rounds of the first. */
  readonly kind: 'averaging' | 'certified' | 'python' | 'demo';
  readonly state: 'running' | 'finished' | 'stopped';
  /** The folder of the run. */
  readonly dir: string;
  /** Folder of the worker; equals `dir` except in demos. */
  readonly worker: string;
  readonly run: string | undefined;
  readonly model: string | undefined;
  readonly parameters: number | undefined;
  readonly relays: readonly string[];
  /** Number of rounds of the run, if known. */
  readonly rounds: number | undefined;
  readonly lossBefore: number | undefined;
  /** Unit of its losses in words; undefined if its model is not known. */
  readonly lossUnit: string | undefined;
  readonly played: number;
  /** The last finished rounds, oldest first; `withHistory` adds all earlier ones. */
  readonly history: readonly CertifiedSummary[];
  readonly bytes: number;
  /** Time of the last write to one of its files, in milliseconds since 1970. */
  readonly changedAtMs: number;
}

/** Returns all runs and demos in the data folder, sorted by name. */
export async function listLocalRuns(home = dataHome()): Promise<readonly LocalRun[]> {
  const runs = (await foldersIn(join(home, 'runs'))).map((name) =>
    readRun(join(home, 'runs', name)),
  );
  const demos = (await foldersIn(join(home, 'demos'))).map((name) => readDemo(home, name));
  const existing = (await Promise.all([...runs, ...demos])).filter((run) => run !== undefined);
  const isOnly = ({ name }: LocalRun) => existing.filter((run) => run.name === name).length === 1;
  return existing
    .map((run) => ({ ...run, word: isOnly(run) ? run.name : basename(run.dir) }))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.dir < b.dir ? -1 : 1));
}

/**
 * Finds a run by name, folder, id, prefix of an id, or path. If several workers of one run match, `anyWorker` returns
 * the one with most rounds. Throws a ConfigError (`run/unknown`, `run/ambiguous`).
 */
export async function findLocalRun(
  nameOrPath: string,
  home = dataHome(),
  { anyWorker = false }: { readonly anyWorker?: boolean } = {},
): Promise<LocalRun> {
  const all = await listLocalRuns(home);
  const named = all.filter(({ word }) => word === nameOrPath);
  const matches = named.length > 0 ? named : all.filter((run) => isMeant(run, nameOrPath));
  if (matches.length > 1) {
    const one = anyWorker && furthestOf(matches);
    if (one) return one;
    throw new ConfigError('run/ambiguous', `${matches.length} runs are called ${nameOrPath}`, {
      hint: `name one by its folder: ${matches.map(({ dir }) => dir).join(', ')}`,
    });
  }
  const run = matches[0] ?? (await readRun(nameOrPath));
  if (run !== undefined) return run;
  const known = all.length === 0 ? 'no runs yet' : all.map(({ word }) => word).join(', ');
  throw new ConfigError('run/unknown', `no run "${nameOrPath}" on this machine`, {
    hint: `\`nostrain runs\` lists all runs (${known}); name a run elsewhere by its folder`,
  });
}

/** Returns the run with all finished rounds; older ones, which the state does not list, are read from its log. */
export async function withHistory(run: LocalRun): Promise<LocalRun> {
  const [first] = run.history;
  if (first === undefined || first.index === 0) return run;
  const earlier = await roundsInLogs(logsIn(run.worker), first.index);
  return { ...run, history: [...earlier, ...run.history] };
}

/** Returns the rounds before `before` in logs, oldest first, without those of abandoned branches. */
async function roundsInLogs(
  paths: readonly string[],
  before: number,
): Promise<readonly CertifiedSummary[]> {
  const rounds = new Map<number, CertifiedSummary>();
  for (const path of paths) {
    const file = await open(path).catch(() => undefined);
    for await (const line of file?.readLines() ?? []) {
      const entry = lineIn(line);
      const fork = entry.type === 'switched' ? numberIn(entry.fork) : undefined;
      if (fork !== undefined)
        for (const index of rounds.keys()) if (index >= fork) rounds.delete(index);
      const round = entry.type === 'round' ? parseRound(entry) : undefined;
      if (round !== undefined && round.index < before) rounds.set(round.index, round);
    }
  }
  return [...rounds.values()].sort((a, b) => a.index - b.index);
}

const IS_OF_ROUND = /"type":"(?:round|switched)"/;

/** Parses a log line about a round; an empty object for any other or truncated line. */
const lineIn = (line: string): Untyped => (IS_OF_ROUND.test(line) ? objectIn(line) : {});

/** Returns the worker's folder of the run with that name. A file, or text that looks like a path, is returned as is. */
export async function runFolderOf(nameOrPath: string, home = dataHome()): Promise<string> {
  if ((await kindOf(nameOrPath)) === 'file') return nameOrPath;
  try {
    return (await findLocalRun(nameOrPath, home, { anyWorker: true })).worker;
  } catch (error) {
    // the caller that reads the path reports what is wrong with it
    if (PATH_PATTERN.test(nameOrPath)) return nameOrPath;
    throw error;
  }
}

const PATH_PATTERN = /^[.~/\\]|^[a-z]:|[\\/]|\.[a-z]{2,11}$/i;

/** Returns the spec in the folder of a certified run; undefined if there is none. */
export async function readKeptSpec(dir: string): Promise<RunSpec | undefined> {
  const text = await readFile(join(dir, 'run.json'), 'utf8').catch(() => undefined);
  const read = text === undefined ? undefined : readCanonical(text);
  return read?.ok ? read.value : undefined;
}

/** Returns the worker with most rounds; undefined if the workers belong to several runs. */
function furthestOf(runs: readonly LocalRun[]): LocalRun | undefined {
  const isOneRun = new Set(runs.map(({ run }) => run)).size === 1;
  const [first] = [...runs].sort((a, b) => b.played - a.played);
  return isOneRun ? first : undefined;
}

/** Shortest prefix of an id that is accepted, in characters. */
const SHORTEST_ID = 6;

/** Returns the name of a run without a spec. Several workers on one machine have folders like `winter-2-of-3`. */
function nameOf(dir: string, run: string | undefined): string {
  const folder = basename(dir);
  return run === undefined || folder.startsWith(`${run}-`) ? folder : run;
}

function isMeant({ name, dir, run }: LocalRun, word: string): boolean {
  const isId =
    word.length >= SHORTEST_ID && /^[0-9a-f]{64}$/.test(run ?? '') && run!.startsWith(word);
  return isId || name === word || run === word || basename(dir) === word;
}

/** Returns the names of the folders in a folder, without symbolic links. */
async function foldersIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch((): Dirent[] => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

async function holdsRun(dir: string): Promise<boolean> {
  const names = await readdir(dir).catch((): string[] => []);
  return ['settings.json', 'state.safetensors', 'run.json'].some((name) => names.includes(name));
}

/** Returns the run in this folder; undefined if there is none. */
async function readRun(dir: string): Promise<LocalRun | undefined> {
  if (!(await holdsRun(dir))) return undefined;
  const [settings, kept, spec, size, owner] = await Promise.all([
    readSettings(dir),
    readState(dir),
    readKeptSpec(dir),
    sizeOf(dir),
    lockOwner(dir).catch(() => undefined),
  ]);
  const rounds = spec?.training.rounds ?? numberIn(settings.rounds);
  const history = kept?.rounds ?? [];
  const model = spec?.training.model ?? textIn(settings.model);
  const isOver = rounds !== undefined && (kept?.round ?? 0) >= rounds;
  return {
    name: spec?.name ?? nameOf(dir, textIn(settings.run)),
    word: dir,
    kind: spec ? 'certified' : settings.profile === 'nostrain/0' ? 'python' : 'averaging',
    state: owner === undefined ? (isOver ? 'finished' : 'stopped') : 'running',
    dir,
    worker: dir,
    rounds,
    played: kept?.round ?? 0,
    history,
    ...size,
    run: spec ? runIdOf(spec) : textIn(settings.run),
    model,
    parameters: kept?.parameters,
    relays: Array.isArray(settings.relay)
      ? settings.relay.filter((url) => typeof url === 'string')
      : [],
    lossBefore: kept?.lossBefore,
    lossUnit: model && lossUnitOf({ model, forecastError: settings.forecastError }, spec?.input),
  };
}

async function readDemo(home: string, demo: string): Promise<LocalRun | undefined> {
  const dir = join(home, 'demos', demo);
  const workers = await Promise.all(
    (await foldersIn(dir)).sort().map((name) => readRun(join(dir, name))),
  );
  const all = workers.filter((worker) => worker !== undefined);
  const [first] = all;
  if (first === undefined) return undefined;
  const isRunning = (await lockOwner(dir).catch(() => undefined)) !== undefined;
  const isOver = all.every(({ state }) => state === 'finished');
  return {
    ...first,
    name: `demos/${demo}`,
    word: `demos/${demo}`,
    kind: 'demo',
    dir,
    ...(await sizeOf(dir)),
    state: isRunning ? 'running' : isOver ? 'finished' : 'stopped',
  };
}

const textIn = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
const numberIn = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined;

/** Returns the settings that a run was started with; empty if they cannot be read. */
async function readSettings(dir: string): Promise<Untyped> {
  return objectIn(await readFile(join(dir, 'settings.json'), 'utf8').catch(() => ''));
}

function objectIn(text: string): Untyped {
  const value = jsonIn(text);
  return isObject(value) ? value : {};
}

/** Returns the record in the header of the state file, so that listing large models reads no parameters. */
export async function readState(dir: string) {
  const header = await readHeader(join(dir, 'state.safetensors')).catch(() => undefined);
  const record = header && parseRecord(header.metadata.worker ?? '', noMembers);
  if (!header || !record) return undefined;
  const parameterTensors = [...header.shapes].filter(
    ([name]) => !name.startsWith(STATE_TENSOR_PREFIX),
  );
  const parameters = parameterTensors.reduce(
    (sum, [, shape]) => sum + shape.reduce((a, b) => a * b, 1),
    0,
  );
  return { ...record, parameters };
}

async function readHeader(path: string): Promise<ReturnType<typeof readSafetensorsHeader>> {
  const file = await open(path, 'r');
  try {
    const length = Buffer.alloc(8);
    await file.read(length, 0, 8, 0);
    const bytes = Number(length.readBigUInt64LE());
    if (bytes > MAX_HEADER_BYTES) return undefined;
    const json = Buffer.alloc(bytes);
    await file.read(json, 0, bytes, 8);
    return readSafetensorsHeader(json);
  } finally {
    await file.close();
  }
}

/** Returns the bytes of all files in a folder, and the time of the last write. */
export async function sizeOf(dir: string): Promise<{ bytes: number; changedAtMs: number }> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const stats = await Promise.all(
    files.map(({ parentPath, name }) => stat(join(parentPath, name)).catch(() => undefined)),
  );
  const existing = stats.filter((each) => each !== undefined);
  return {
    bytes: existing.reduce((sum, { size }) => sum + size, 0),
    changedAtMs: Math.max(0, ...existing.map(({ mtimeMs }) => mtimeMs)),
  };
}
