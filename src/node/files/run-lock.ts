/**
 * One process at a time plays the worker of a folder, and one at a time plays a key in a run on this machine: files with process ids, taken
 * over from the dead. Two processes with one key contradict each other, and the key is thrown out.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../../base/errors.ts';

export interface RunLock {
  release(): Promise<void>;
}

/** How long two processes that find the same dead owner may take to notice each other. */
const SETTLE_MS = 100;

/** Locks of this very process: its id in a file could also be left from a dead one with the same id. */
const held = new Set<string>();

/** What a lock is on, for people. */
interface Locked {
  readonly file: string;
  /** What a process does that holds it. */
  readonly does: string;
  /** Where the file is to be made. */
  readonly dir: string;
}

/** Throws `run/busy` when another live process holds the folder, or this one already does. */
export const takeLock = async (dir: string): Promise<RunLock> =>
  take({ file: join(await realpath(dir), 'lock'), does: `plays the worker in ${dir}`, dir });

/** The same of a key in a run, whatever folder its worker has. */
export async function takeKeyLock(home: string, run: string, key: string): Promise<RunLock> {
  const dir = join(home, 'locks');
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw refused(dir, cause);
  });
  // a run may have any name
  const name = createHash('sha256')
    .update(JSON.stringify([run, key]))
    .digest('hex');
  const file = join(await realpath(dir), name.slice(0, 32));
  return take({ file, does: `plays in this run with the key ${key}`, dir });
}

/** The live process that plays the worker in a folder; undefined where none does. */
export async function lockOwner(dir: string): Promise<number | undefined> {
  const file = join(await realpath(dir), 'lock');
  const owner = ownerOf(await textOf(file));
  if (owner === process.pid) return held.has(file) ? owner : undefined;
  return isAlive(owner) ? owner : undefined;
}

async function take(locked: Locked): Promise<RunLock> {
  const { file } = locked;
  if (held.has(file)) throw busy(process.pid, locked);
  held.add(file);
  const mine = `${process.pid} ${randomUUID()}\n`;
  try {
    await claim(mine, locked);
  } catch (error) {
    held.delete(file);
    throw error;
  }
  return {
    async release() {
      if ((await textOf(file)) === mine) await rm(file, { force: true });
      held.delete(file);
    },
  };
}

const refused = (dir: string, cause: unknown): ConfigError =>
  new ConfigError('run/folder', `cannot make a lock in ${dir}`, {
    hint: 'name a folder you may write to: --dir DIR for a run, NOSTRAIN_HOME for the data folder',
    cause,
  });

async function claim(mine: string, locked: Locked): Promise<void> {
  const { file, dir } = locked;
  try {
    await writeFile(file, mine, { flag: 'wx' });
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refused(dir, error);
  }
  // an empty file is one whose owner is about to write to it
  if ((await textOf(file)) === '') await sleep(SETTLE_MS);
  const owner = ownerOf(await textOf(file));
  if (owner !== process.pid && isAlive(owner)) throw busy(owner, locked);
  const aside = `${file}.${process.pid}`;
  try {
    await writeFile(aside, mine);
    await rename(aside, file);
  } catch (error) {
    await rm(aside, { force: true });
    throw refused(dir, error);
  }
  await sleep(SETTLE_MS);
  const now = await textOf(file);
  if (now !== mine) throw busy(ownerOf(now), locked);
}

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

const ownerOf = (text: string): number => Number(text.split(/\s/)[0]);

const busy = (pid: number, { does }: Pick<Locked, 'does'>): ConfigError =>
  new ConfigError('run/busy', `process ${pid} already ${does}`, {
    hint: 'stop it first; a second worker needs a key of its own (--key-file FILE) and a folder of its own (--dir DIR)',
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
