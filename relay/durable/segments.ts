/** The numbered files a log consists of, oldest first; made, listed and rewritten so that a crash at any moment loses nothing. */
import { type FileHandle, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeRecords, encodeRecord } from './record.ts';

const NAME = /^(\d{8})\.log$/;

const fileOf = (folder: string, number: number): string =>
  join(folder, `${String(number).padStart(8, '0')}.log`);

/** Numbers of the segments in the folder, ascending. */
export async function listSegments(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder);
  return names
    .map((name) => Number(NAME.exec(name)?.[1] ?? Number.NaN))
    .filter((number) => !Number.isNaN(number))
    .sort((a, b) => a - b);
}

/** Opens a segment to append to, made if it is not there; its name survives a crash from here on. */
export async function openSegment(folder: string, number: number): Promise<FileHandle> {
  const file = await open(fileOf(folder, number), 'a');
  await syncFolder(folder);
  return file;
}

/** The JSON of every record of a segment. Of the last one a torn tail is cut off; damage elsewhere throws. */
export async function readSegment(folder: string, number: number, isLast: boolean) {
  const name = fileOf(folder, number);
  const bytes = await readFile(name);
  const { jsons, end } = decodeRecords(bytes);
  if (end === bytes.length) return { jsons, cutBytes: 0, bytes: end };
  if (!isLast) {
    throw new Error(`${name} is damaged at byte ${end}; move it away to start without its events`);
  }
  const file = await open(name, 'r+');
  await file.truncate(end);
  await file.sync();
  await file.close();
  return { jsons, cutBytes: bytes.length - end, bytes: end };
}

/** Puts these events into one new segment and removes the given ones. */
export async function rewriteSegments(
  folder: string,
  numbers: readonly number[],
  jsons: Iterable<Buffer>,
): Promise<number> {
  const number = numbers.at(-1)! + 1;
  const draft = `${fileOf(folder, number)}.draft`;
  const file = await open(draft, 'w');
  for (const json of jsons) await file.appendFile(encodeRecord(json));
  await file.sync();
  await file.close();
  await rename(draft, fileOf(folder, number));
  await syncFolder(folder);
  for (const old of numbers) await rm(fileOf(folder, old));
  await syncFolder(folder);
  return number;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync();
  await handle.close();
}
