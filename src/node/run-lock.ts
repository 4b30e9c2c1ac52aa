/** One process at a time plays the worker of a folder: a file `lock` with its process id, taken over from the dead. */
import { randomUUID } from 'node:crypto';
import { readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../base/errors.ts';

export interface RunLock {
  release(): Promise<void>;
}

/** How long two processes that find the same dead owner may take to notice each other. */
const SETTLE_MS = 100;

/** Locks of this very process: its id in a file could also be left from a dead one with the same id. */
const held = new Set<string>();

/** Throws `run/busy` when another live process holds the folder, or this one already does. */
export async function takeLock(dir: string): Promise<RunLock> {
  const file = join(await realpath(dir), 'lock');
  if (held.has(file)) throw busy(process.pid, dir);
  held.add(file);
  const mine = `${process.pid} ${randomUUID()}\n`;
  try {
    await claim(file, mine, dir);
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

async function claim(file: string, mine: string, dir: string): Promise<void> {
  const refuse = (cause: unknown) =>
    new ConfigError('run/folder', `cannot lock the run folder ${dir}`, {
      hint: 'name a folder you may write to with --dir DIR',
      cause,
    });
  try {
    await writeFile(file, mine, { flag: 'wx' });
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw refuse(error);
  }
  // an empty file is one whose owner is about to write to it
  if ((await textOf(file)) === '') await sleep(SETTLE_MS);
  const owner = ownerOf(await textOf(file));
  if (owner !== process.pid && isAlive(owner)) throw busy(owner, dir);
  const aside = `${file}.${process.pid}`;
  try {
    await writeFile(aside, mine);
    await rename(aside, file);
  } catch (error) {
    await rm(aside, { force: true });
    throw refuse(error);
  }
  await sleep(SETTLE_MS);
  const now = await textOf(file);
  if (now !== mine) throw busy(ownerOf(now), dir);
}

const textOf = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');

const ownerOf = (text: string): number => Number(text.split(/\s/)[0]);

const busy = (pid: number, dir: string): ConfigError =>
  new ConfigError('run/busy', `process ${pid} already plays the worker in ${dir}`, {
    hint: 'stop it first, or give this one its own --dir',
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
