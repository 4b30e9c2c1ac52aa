/**
 * A run on disk: `state.safetensors` (parameters, momentum, moments, residual, history), `votes.json` (what a worker signed in the round in
 * progress), each one file that is replaced whole and synced; `settings.json`, `log.ndjson`, `key`, and a lock so that one process at a time
 * plays a worker.
 */

import { appendFileSync } from 'node:fs';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CheckpointError, ConfigError } from '../base/errors.ts';
import { safeJson } from '../base/safe-text.ts';
import type { RunEvent } from '../certified/events.ts';
import { type Entry, formatEntry, type Journal, parseEntry } from '../certified/journal.ts';
import type { Store } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import type { AddedMembers } from '../worker/worker-record.ts';
import { takeLock } from './run-lock.ts';
import { encodeState, loadState } from './state-file.ts';

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
  return {
    dir,
    store: {
      load: (layout) => loadState(file, layout, added),
      save: (state) => writeWhole(file, encodeState(state, added)),
    },
    votes: createVoteJournal(join(dir, 'votes.json')),
    log: (event) => append(join(dir, 'log.ndjson'), { at: Date.now(), ...event }),
    close: () => lock.release(),
  };
}

/** Settings that may differ when a run goes on: none of them changes what a step computes. */
const MAY_CHANGE = [
  'relay',
  'roundTimeout',
  'joinTimeout',
  'waitFor',
  'heartbeatInterval',
  'maxMissedHeartbeats',
  'codec',
  'checkpointHistory',
  'recompute',
  'accumulate',
  'evaluate',
];

/** Keeps the settings of a new run; a run that goes on must have the same ones where they matter. */
export async function agreeOnSettings(
  dir: string,
  settings: Readonly<Record<string, unknown>>,
): Promise<void> {
  const file = join(dir, 'settings.json');
  const before = await readSettingsKept(file);
  if (before !== undefined) {
    const changed = Object.keys({ ...before, ...settings }).filter(
      (key) =>
        !MAY_CHANGE.includes(key) && JSON.stringify(before[key]) !== JSON.stringify(settings[key]),
    );
    if (changed.length > 0) {
      const words = changed.map(
        (key) => `${key} ${JSON.stringify(before[key])} -> ${JSON.stringify(settings[key])}`,
      );
      throw new ConfigError(
        'run/settings',
        `${dir} holds a run with other settings: ${words.join(', ')}`,
        { hint: 'use the same settings to go on, or another --dir to start anew' },
      );
    }
  }
  await writeWhole(file, new TextEncoder().encode(`${JSON.stringify(settings, null, 2)}\n`));
}

/** What the folder's run was started with; undefined for a new one. */
async function readSettingsKept(file: string): Promise<Record<string, unknown> | undefined> {
  const refuse = (why: string, cause?: unknown) =>
    new CheckpointError('run/settings', `${file} ${why}`, {
      hint: 'move the folder away to start anew',
      cause,
    });
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw refuse('cannot be read', cause);
  });
  if (text === undefined) return undefined;
  let settings: unknown;
  try {
    settings = JSON.parse(text);
  } catch {
    settings = undefined;
  }
  if (typeof settings === 'object' && settings !== null && !Array.isArray(settings)) {
    return settings as Record<string, unknown>;
  }
  throw refuse('does not hold the settings of a run');
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

/** Replaces a file as a whole: after a crash it holds the old bytes or the new ones. */
async function writeWhole(file: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${file}.tmp`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    await syncFolder(dirname(file));
  } catch (cause) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw cannotWrite(file, cause);
  }
}

/** Until its folder is on disk too, a file that was renamed may come back under its old name. Not every system has this. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

/** The error of a write that the disk refused. */
const cannotWrite = (file: string, cause: unknown): CheckpointError =>
  new CheckpointError('run/write', `cannot write ${file} (${(cause as Error).message})`, {
    hint: 'make room on the disk and repeat the command; what was saved before is whole',
    cause,
  });
