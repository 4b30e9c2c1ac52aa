/**
 * The folder of a worker: state, votes, inner phase, earlier rounds and private states, in files that are replaced
 * atomically. Also locks: one process per folder, and one per key in a run, since two would contradict each other.
 */
import { createHash, randomUUID } from 'node:crypto';
import { appendFileSync, renameSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isHex32 } from '../../base/bytes.ts';
import { CheckpointError, ConfigError, safeJson } from '../../base/errors.ts';
import { KEPT_STATES } from '../../certified/features/disclosure.ts';
import type { PrivateStore } from '../../certified/features/feature.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import {
  type Entry,
  formatEntry,
  type Journal,
  parseEntry,
} from '../../certified/rounds/journal.ts';
import { fullName } from '../../run/worker-names.ts';
import type { Layout } from '../../tensor/params.ts';
import type { Store } from '../../worker/ports.ts';
import type { WorkerState } from '../../worker/state.ts';
import { type AddedMembers, decodeState, encodeState } from '../../worker/state-file.ts';
import { cannotWrite, writeAtomically } from './atomic-file.ts';
import { createBackfillStore, roundsFolder } from './finished-rounds.ts';

export interface RunLock {
  release(): Promise<void>;
}

/** Milliseconds in which two processes that take over the same stale lock notice each other. */
const SETTLE_MS = 100;

/** Locks of this process. A process id in a lock file is not enough: a dead process may have had the same id. */
const localLocks = new Set<string>();

/** The target of a lock. */
interface Locked {
  readonly file: string;
  /** What the owner does, for the error message. */
  readonly does: string;
  /** Folder of the lock file. */
  readonly dir: string;
}

/** Locks a folder. Throws a ConfigError (`run/busy`) if this or another live process already has the lock. */
export const takeLock = async (dir: string): Promise<RunLock> =>
  take({ file: join(await realpath(dir), 'lock'), does: `plays the worker in ${dir}`, dir });

/** Locks a key in a run, across all folders. Throws a ConfigError (`run/busy`) as `takeLock` does. */
export async function takeKeyLock(home: string, run: string, key: string): Promise<RunLock> {
  const dir = join(home, 'locks');
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw refused(dir, cause);
  });
  // a run may have any name, so the file is named by a hash
  const name = createHash('sha256')
    .update(JSON.stringify([run, key]))
    .digest('hex');
  const file = join(await realpath(dir), name.slice(0, 32));
  return take({ file, does: `plays in this run with the key ${fullName(key)}`, dir });
}

/** Returns the id of the live process that has locked a folder; undefined if none has. */
export async function lockOwner(dir: string): Promise<number | undefined> {
  const file = join(await realpath(dir), 'lock');
  const owner = ownerOf(await textOf(file));
  if (owner === process.pid) return localLocks.has(file) ? owner : undefined;
  return isAlive(owner) ? owner : undefined;
}

async function take(locked: Locked): Promise<RunLock> {
  const { file } = locked;
  if (localLocks.has(file)) throw busy(process.pid, locked);
  localLocks.add(file);
  const token = `${process.pid} ${randomUUID()}\n`;
  try {
    await claim(token, locked);
  } catch (error) {
    localLocks.delete(file);
    throw error;
  }
  return {
    async release() {
      if ((await textOf(file)) === token) await rm(file, { force: true });
      localLocks.delete(file);
    },
  };
}

const refused = (dir: string, cause: unknown): ConfigError =>
  new ConfigError('run/folder', `cannot create a lock in ${dir}`, {
    hint: 'name a writable folder: --dir DIR for a run, NOSTRAIN_HOME for the data folder',
    cause,
  });

async function claim(token: string, locked: Locked): Promise<void> {
  const { file, dir } = locked;
  try {
    await writeFile(file, token, { flag: 'wx' });
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refused(dir, error);
  }
  // the file is empty while its owner is about to write to it
  if ((await textOf(file)) === '') await sleep(SETTLE_MS);
  const owner = ownerOf(await textOf(file));
  if (owner !== process.pid && isAlive(owner)) throw busy(owner, locked);
  const aside = `${file}.${process.pid}`;
  try {
    await writeFile(aside, token);
    await rename(aside, file);
  } catch (error) {
    await rm(aside, { force: true });
    throw refused(dir, error);
  }
  await sleep(SETTLE_MS);
  const current = await textOf(file);
  if (current !== token) throw busy(ownerOf(current), locked);
}

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

const ownerOf = (text: string): number => Number(text.split(/\s/)[0]);

const busy = (pid: number, { does }: Pick<Locked, 'does'>): ConfigError =>
  new ConfigError('run/busy', `process ${pid} already ${does}`, {
    hint:
      'stop it first; a second worker needs another key (--key-file FILE) and another ' +
      'folder (--dir DIR)',
  });

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Creates the run folder of a worker unless it exists. Throws a ConfigError (`run/folder`) if the disk refuses it. */
export async function makeRunFolder(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `cannot create the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
}

/** The open folder of one worker: its state, its log and its votes. */
export interface RunFolder<M extends object> {
  readonly dir: string;
  readonly store: Store<WorkerState & M>;
  /** Used in certified runs. */
  readonly votes: Journal;
  log(event: RunEvent): void;
  close(): Promise<void>;
}

/**
 * Opens the folder, creating it if needed, and locks it. `added` reads and writes the members that the strategy adds to
 * the state. Throws a ConfigError (`run/busy`) if another process has locked it.
 */
export async function openRunFolder<M extends object = object>(
  dir: string,
  added: AddedMembers<M>,
): Promise<RunFolder<M>> {
  await makeRunFolder(dir);
  const lock = await takeLock(dir);
  const file = join(dir, 'state.safetensors');
  const phase = join(dir, 'phase.safetensors');
  const log = createLog(dir);
  return {
    dir,
    store: {
      load: (layout) => loadState(file, layout, added),
      save: (state) => writeAtomically(file, encodeState(state, added)),
      phase: {
        load: () => readFile(phase).catch(() => undefined),
        save: (bytes) => writeAtomically(phase, bytes),
      },
    },
    votes: {
      ...createVoteJournal(join(dir, 'votes.json')),
      backfill: createBackfillStore(roundsFolder(dir)),
      states: createPrivateStore(join(dir, 'private')),
    },
    log: (event) => log({ at: Date.now(), ...event }),
    close: () => lock.release(),
  };
}

/** Size at which a log is renamed to `log.1.ndjson`, in place of the one before. */
const LOG_BYTES = 8 << 20;

/** Returns the logs of a worker's folder, the older one first. */
export const logsIn = (dir: string): readonly string[] =>
  ['log.1.ndjson', 'log.ndjson'].map((name) => join(dir, name));

function createLog(dir: string): (line: Readonly<Record<string, unknown>>) => void {
  const [older = '', file = ''] = logsIn(dir);
  return (line) => {
    try {
      const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
      if (size >= LOG_BYTES) renameSync(file, older);
      appendFileSync(file, `${safeJson(line)}\n`);
    } catch (cause) {
      throw cannotWrite(file, cause);
    }
  };
}

const createVoteJournal = (file: string): Journal => ({
  load: () => load(file),
  save: (entry) => writeAtomically(file, new TextEncoder().encode(formatEntry(entry))),
});

/** Stores private states, one file each, and keeps the newest ones. */
const createPrivateStore = (folder: string): PrivateStore => ({
  async save(root, bytes) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeAtomically(join(folder, root), bytes);
    const files = (await readdir(folder)).filter((name) => name !== root && isHex32(name));
    const dated = await Promise.all(
      files.map(async (name) => ({ name, at: (await stat(join(folder, name))).mtimeMs })),
    );
    const old = dated.sort((a, b) => b.at - a.at).slice(KEPT_STATES - 1);
    await Promise.all(old.map(({ name }) => rm(join(folder, name), { force: true })));
  },
  load: (root) => readFile(join(folder, root)).catch(() => undefined),
});

async function load(file: string): Promise<Entry | undefined> {
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw broken(file, cause);
  });
  if (text === undefined) return undefined;
  try {
    const entry = parseEntry(text);
    if (entry !== undefined) return entry;
  } catch (cause) {
    throw broken(file, cause);
  }
  throw broken(file, undefined);
}

const broken = (file: string, cause: unknown): CheckpointError =>
  new CheckpointError('run/votes', `${file} is not a readable record of this worker's votes`, {
    hint:
      'move the file away and run the same command again; the worker then does not vote in the ' +
      'current round',
    cause,
  });

/** Returns the saved state; undefined if there is none. Throws `run/state` if it is broken or of another model. */
export async function loadState<M extends object>(
  file: string,
  layout: Layout,
  added: AddedMembers<M>,
): Promise<(WorkerState & M) | undefined> {
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new CheckpointError('run/state', `cannot read ${file}`, {
      hint: 'change its permissions, or name another folder with --dir DIR',
      cause: error,
    });
  });
  if (!bytes) return undefined;
  const state = decodeState(bytes, layout, added);
  if (typeof state !== 'string') return state;
  throw new CheckpointError('run/state', `${file} cannot be used: ${state}`, {
    hint: 'use the model and settings it was created with, or move the folder away to start over',
  });
}
