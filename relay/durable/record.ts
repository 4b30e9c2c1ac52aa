/** One record of a segment: length and CRC-32 of the event's JSON, little-endian, then the JSON. */
import { crc32 } from 'node:zlib';

const HEAD_BYTES = 8;

/** Head and body, to be written one after the other. */
export function encodeRecord(json: Buffer): readonly [Buffer, Buffer] {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt32LE(json.length, 0);
  head.writeUInt32LE(crc32(json), 4);
  return [head, json];
}

/** The whole records of a segment, and where they end: all of it, or the first byte that is torn or damaged. */
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
