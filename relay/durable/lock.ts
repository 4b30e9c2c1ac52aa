/** One relay per folder: a file with the owner's process id, taken over when that process is gone. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** Folders this process holds; a file with our own id that is not in here was left by an earlier process. */
const held = new Set<string>();

/** Takes the folder or throws; the answer gives it back. */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const file = join(resolve(folder), 'lock');
  if (held.has(file)) throw new Error(`${folder} is in use by another relay of this process`);
  held.add(file);
  try {
    await take(file, folder);
  } catch (cause) {
    held.delete(file);
    throw cause;
  }
  return async () => {
    await rm(file, { force: true });
    held.delete(file);
  };
}

async function take(file: string, folder: string): Promise<void> {
  const mine = `${process.pid}`;
  try {
    await writeFile(file, mine, { flag: 'wx' });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    const owner = Number(await readFile(file, 'utf8'));
    if (owner !== process.pid && isAlive(owner)) {
      throw new Error(`${folder} is in use by process ${owner}`, { cause });
    }
    await writeFile(file, mine);
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EPERM';
  }
}
