/**
 * The numbered segment files of a log, oldest first. A file is created before it is written, and removed when none of
 * its records is live. A record is the length and CRC-32 of the event's JSON (little-endian), then the JSON.
 */
import { type FileHandle, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

/** One file of the log. */
export interface Segment {
  readonly number: number;
  readonly bytes: number;
}

const NAME = /^(\d{8})\.log$/;

const fileOf = (folder: string, number: number): string =>
  join(folder, `${String(number).padStart(8, '0')}.log`);

/** Returns the numbers of the segments in the folder, ascending. */
export async function listSegments(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder);
  return names
    .map((name) => Number(NAME.exec(name)?.[1] ?? Number.NaN))
    .filter((number) => !Number.isNaN(number))
    .sort((a, b) => a - b);
}

/** Opens a segment for appending; creates it if necessary, and syncs its directory entry. */
export async function openSegment(folder: string, number: number): Promise<FileHandle> {
  const file = await open(fileOf(folder, number), 'a');
  await syncFolder(folder);
  return file;
}

/**
 * Returns the JSON of every record of a segment. Cuts off a torn tail of the last segment; throws for other damage.
 */
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

export async function removeSegment(folder: string, number: number): Promise<void> {
  await rm(fileOf(folder, number));
  await syncFolder(folder);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync();
  await handle.close();
}

const HEAD_BYTES = 8;

/** Returns header and body of a record, to be written one after the other. */
export function encodeRecord(json: Buffer): readonly [Buffer, Buffer] {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt32LE(json.length, 0);
  head.writeUInt32LE(crc32(json), 4);
  return [head, json];
}

/**
 * Returns the complete records of a segment, and the offset where they end: the end of the file, or the first torn or
 * damaged byte.
 */
export function decodeRecords(segment: Buffer): { jsons: Buffer[]; end: number } {
  const jsons: Buffer[] = [];
  let end = 0;
  while (end + HEAD_BYTES < segment.length) {
    const length = segment.readUInt32LE(end);
    const json = segment.subarray(end + HEAD_BYTES, end + HEAD_BYTES + length);
    const whole = length > 0 && json.length === length;
    if (!whole || crc32(json) !== segment.readUInt32LE(end + 4)) break;
    jsons.push(json);
    end += HEAD_BYTES + length;
  }
  return { jsons, end };
}
