/** Starting on a folder: what its log holds goes into the store, and a log that is mostly dead weight is rewritten. */
import { mkdir } from 'node:fs/promises';
import { parseArrival } from '../event.ts';
import type { Store } from '../store.ts';
import { EventLog } from './event-log.ts';
import { lockFolder } from './lock.ts';
import { listSegments, readSegment, rewriteSegments } from './segments.ts';

/** A log in use, and what was found in its folder. */
export interface Recovered {
  readonly log: EventLog;
  /** Bytes of the torn tail that was cut off. */
  readonly cutBytes: number;
  /** Ends the log and leaves the folder to others. */
  close(): Promise<void>;
}

/** Fills the store from the folder, which is made if it is not there. */
export async function recover(
  folder: string,
  store: Store,
  nowSeconds: number,
): Promise<Recovered> {
  await mkdir(folder, { recursive: true });
  const unlock = await lockFolder(folder);
  try {
    const { log, cutBytes } = await replay(folder, store, nowSeconds);
    return { log, cutBytes, close: () => log.close().then(unlock) };
  } catch (cause) {
    await unlock();
    throw cause;
  }
}

async function replay(folder: string, store: Store, nowSeconds: number) {
  const numbers = await listSegments(folder);
  let cutBytes = 0;
  let allBytes = 0;
  let lastBytes = 0;
  for (const number of numbers) {
    const segment = await readSegment(folder, number, number === numbers.at(-1));
    cutBytes += segment.cutBytes;
    lastBytes = segment.bytes;
    allBytes += segment.bytes;
    for (const json of segment.jsons) addRecord(store, json);
  }
  store.removeOver(nowSeconds);
  if (numbers.length > 0 && (store.buried > 0 || allBytes > 2 * store.bytes)) {
    const jsons = Array.from(store.entries(), (entry) => entry.json);
    const number = await rewriteSegments(folder, numbers, jsons);
    return { log: await EventLog.open(folder, number, store.bytes), cutBytes };
  }
  return { log: await EventLog.open(folder, numbers.at(-1) ?? 1, lastBytes), cutBytes };
}

/** The entry is parsed from a copy of the bytes, so that the segment they lie in can be freed. */
function addRecord(store: Store, bytes: Buffer): void {
  const arrival = parseArrival(JSON.parse(bytes.toString()));
  if (typeof arrival === 'string') throw new Error(`a record is no event: ${arrival}`);
  const { id, pubkey, created_at, kind, tags, json } = arrival;
  store.add({ id, pubkey, created_at, kind, tags, json });
}
