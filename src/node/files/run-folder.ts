/**
 * A run on disk: `state.safetensors` (parameters, momentum, moments, residual, the last rounds), `votes.json` (what a worker signed in the round in
 * progress), `phase.safetensors` (its inner phase in the middle), each one file that is replaced whole and synced; `past` (what decided earlier rounds); `private` (states that it may have to show); `settings.json`, `log.ndjson`, `key`, and a lock so that one process at a time
 * plays a worker.
 */

import { appendFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isHex32 } from '../../base/bytes.ts';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import { safeJson } from '../../base/safe-text.ts';
import { KEPT_STATES, type PrivateStore } from '../../certified/checks/showing.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import {
  type Entry,
  formatEntry,
  type Journal,
  parseEntry,
} from '../../certified/rounds/journal.ts';
import type { PastStore } from '../../certified/rounds/past.ts';
import type { Layout } from '../../tensor/params.ts';
import type { Store } from '../../worker/ports.ts';
import type { WorkerState } from '../../worker/state.ts';
import { decodeState, encodeState } from '../../worker/state-bytes.ts';
import type { AddedMembers } from '../../worker/worker-record.ts';
import { takeLock } from './run-lock.ts';
import { cannotWrite, writeWhole } from './whole-file.ts';

/** The folder of one worker, as `openRunFolder` gives it: its state, its log, its votes. */
export interface RunFolder<M extends object> {
  readonly dir: string;
  readonly store: Store<WorkerState & M>;
  /** Used in certified runs. */
  readonly votes: Journal;
  /** Appends one line to the log. */
  log(event: RunEvent): void;
  close(): Promise<void>;
}

/**
 * Opens or makes the folder and takes its lock; `added` writes what the run's strategy adds to the state. Throws `run/busy` when
 * another live process holds it.
 */
export async function openRunFolder<M extends object = object>(
  dir: string,
  added: AddedMembers<M>,
): Promise<RunFolder<M>> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `cannot make the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
  const lock = await takeLock(dir);
  const file = join(dir, 'state.safetensors');
  const phase = join(dir, 'phase.safetensors');
  return {
    dir,
    store: {
      load: (layout) => loadState(file, layout, added),
      save: (state) => writeWhole(file, encodeState(state, added)),
      phase: {
        load: () => readFile(phase).catch(() => undefined),
        save: (bytes) => writeWhole(phase, bytes),
      },
    },
    votes: {
      ...createVoteJournal(join(dir, 'votes.json')),
      past: createPastStore(join(dir, 'past')),
      states: createPrivateStore(join(dir, 'private')),
    },
    log: (event) => append(join(dir, 'log.ndjson'), { at: Date.now(), ...event }),
    close: () => lock.release(),
  };
}

function append(file: string, line: Readonly<Record<string, unknown>>): void {
  try {
    appendFileSync(file, `${safeJson(line)}\n`);
  } catch (cause) {
    throw cannotWrite(file, cause);
  }
}

/** The journal in this file. */
const createVoteJournal = (file: string): Journal => ({
  load: () => load(file),
  save: (entry) => writeWhole(file, new TextEncoder().encode(formatEntry(entry))),
});

/** One file for each round. */
const createPastStore = (folder: string): PastStore => ({
  async save(round, text) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeWhole(join(folder, `${round}.json`), new TextEncoder().encode(text));
  },
  load: (round) => readFile(join(folder, `${round}.json`), 'utf8').catch(() => undefined),
});

/** One file for each, the newest ones. */
const createPrivateStore = (folder: string): PrivateStore => ({
  async save(root, bytes) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeWhole(join(folder, root), bytes);
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
  new CheckpointError('run/votes', `${file} cannot be read as what this worker signed`, {
    hint: 'without it the worker does not vote in the round in progress; move the file away to go on so',
    cause,
  });

/** The saved state, or undefined when there is none yet. Throws `run/state` when the file is broken or holds another model. */
export async function loadState<M extends object>(
  file: string,
  layout: Layout,
  added: AddedMembers<M>,
): Promise<(WorkerState & M) | undefined> {
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new CheckpointError('run/state', `cannot read ${file}`, {
      hint: 'make it readable for you, or name another folder with --dir DIR',
      cause: error,
    });
  });
  if (!bytes) return undefined;
  const state = decodeState(bytes, layout, added);
  if (typeof state !== 'string') return state;
  throw new CheckpointError('run/state', `${file} cannot be used: ${state}`, {
    hint: 'move the folder away to start anew, or use the model and settings it was made with',
  });
}
