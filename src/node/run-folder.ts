/**
 * A run on disk: `state.safetensors` (parameters, momentum, moments, residual, history: one file, replaced whole),
 * `settings.json`, `log.ndjson`, `key`, and a lock so that one process at a time plays a worker.
 */

import { appendFileSync } from 'node:fs';
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../base/errors.ts';
import type { WorkerEvent } from '../worker/events.ts';
import type { Store } from '../worker/ports.ts';
import { encodeState, loadState } from './state-file.ts';

export interface RunFolder {
  readonly dir: string;
  readonly store: Store;
  /** Appends one line to the log. */
  log(event: WorkerEvent): void;
  close(): Promise<void>;
}

/** Opens or makes the folder and takes its lock. Throws `run/busy` when another live process holds it. */
export async function openRunFolder(dir: string): Promise<RunFolder> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `cannot make the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
  const lock = join(dir, 'lock');
  await takeLock(lock, dir);
  const file = join(dir, 'state.safetensors');
  return {
    dir,
    store: {
      load: (layout) => loadState(file, layout),
      save: (state) => writeWhole(file, encodeState(state)),
    },
    log: (event) =>
      appendFileSync(join(dir, 'log.ndjson'), `${JSON.stringify({ at: Date.now(), ...event })}\n`),
    close: () => rm(lock, { force: true }),
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
  'evaluate',
];

/** Keeps the settings of a new run; a run that goes on must have the same ones where they matter. */
export async function agreeOnSettings(
  dir: string,
  settings: Readonly<Record<string, unknown>>,
): Promise<void> {
  const file = join(dir, 'settings.json');
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text !== undefined) {
    const before: Record<string, unknown> = JSON.parse(text);
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
        {
          hint: 'use the same settings to go on, or another --dir to start anew',
        },
      );
    }
  }
  await writeWhole(file, new TextEncoder().encode(`${JSON.stringify(settings, null, 2)}\n`));
}

/** Replaces a file as a whole: after a crash it holds the old bytes or the new ones. */
async function writeWhole(file: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${file}.tmp`;
  const handle = await open(temporary, 'w', 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}

async function takeLock(lock: string, dir: string): Promise<void> {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      await writeFile(lock, `${process.pid}\n`, { flag: 'wx' });
      return;
    } catch (cause) {
      const pid = Number(await readFile(lock, 'utf8').catch(() => ''));
      if (pid !== process.pid && isAlive(pid)) {
        throw busy(pid, dir, cause);
      }
      await rm(lock, { force: true });
    }
  }
}

const busy = (pid: number, dir: string, cause: unknown): ConfigError =>
  new ConfigError('run/busy', `process ${pid} already plays the worker in ${dir}`, {
    hint: 'stop it first, or give this one its own --dir',
    cause,
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
