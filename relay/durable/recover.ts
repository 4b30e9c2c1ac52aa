/**
 * Opens a store folder, which one relay uses at a time: loads its log into the store, and removes from disk what is
 * deleted, expired or replaced.
 */

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArrival } from '../event.ts';
import type { Store } from '../store.ts';
import { EventLog } from './event-log.ts';
import { listSegments, readSegment, type Segment } from './segments.ts';

const SEGMENT_BYTES = 16 << 20;

/** An open log, and what was in its folder. */
export interface Recovered {
  readonly log: EventLog;
  /** Bytes of the torn tail that was cut off. */
  readonly cutBytes: number;
  /** Closes the log and unlocks the folder. */
  close(): Promise<void>;
}

/** Fills the store from the folder; creates the folder if necessary. */
export async function recover(
  folder: string,
  store: Store,
  nowSeconds: number,
  segmentBytes = SEGMENT_BYTES,
): Promise<Recovered> {
  await mkdir(folder, { recursive: true });
  const unlock = await lockFolder(folder);
  try {
    const { segments, cutBytes } = await replay(folder, store, nowSeconds);
    const log = await EventLog.open({ folder, kept: store, segmentBytes }, segments);
    if (segments.length > 0 && (store.buried > 0 || log.isWasteful)) await log.rewrite();
    return { log, cutBytes, close: () => log.close().then(unlock) };
  } catch (cause) {
    await unlock();
    throw cause;
  }
}

async function replay(folder: string, store: Store, nowSeconds: number) {
  const segments: Segment[] = [];
  let cutBytes = 0;
  const numbers = await listSegments(folder);
  for (const number of numbers) {
    const segment = await readSegment(folder, number, number === numbers.at(-1));
    cutBytes += segment.cutBytes;
    segments.push({ number, bytes: segment.bytes });
    for (const json of segment.jsons) addRecord(store, json, nowSeconds);
  }
  store.removeOver(nowSeconds);
  return { segments, cutBytes };
}

/** Parses a record. The bytes are copied, so that the segment they are in can be freed. */
function addRecord(store: Store, bytes: Buffer, nowSeconds: number): void {
  const arrival = parseArrival(JSON.parse(bytes.toString()));
  if (typeof arrival === 'string') throw new Error(`a record is no event: ${arrival}`);
  const { id, pubkey, created_at, kind, tags, json } = arrival;
  store.add({ id, pubkey, created_at, kind, tags, json }, nowSeconds);
}

/**
 * Folders locked by this process; a lock file with our process id that is not listed here is from an earlier process.
 */
const locked = new Set<string>();

/** Locks the folder, or throws; the returned function unlocks it. */
async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const file = join(resolve(folder), 'lock');
  if (locked.has(file)) throw new Error(`${folder} is in use by another relay of this process`);
  locked.add(file);
  try {
    await take(file, folder);
  } catch (cause) {
    locked.delete(file);
    throw cause;
  }
  return async () => {
    await rm(file, { force: true });
    locked.delete(file);
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
