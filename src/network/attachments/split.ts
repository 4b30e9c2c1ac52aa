/**
 * Where a payload is cut: chunks of 44 KiB, the last one having what is left. So length alone fixes how many chunks there
 * are and how long each is, and nobody can cut the same bytes another way.
 */
import { CHUNK_BYTES, MAX_CHUNKS } from '../../../kinds/chunk.ts';

const isCount = (value: number, most: number): boolean =>
  Number.isSafeInteger(value) && value >= 1 && value <= most;

/** Whether there can be a payload of that length with a chunk of that index. */
export const isPlace = (index: number, bytes: number): boolean =>
  isCount(bytes, CHUNK_BYTES * MAX_CHUNKS) && isCount(index + 1, Math.ceil(bytes / CHUNK_BYTES));

/** How many chunks a payload of that length has; it has at least one byte. */
export function chunkCount(bytes: number): number {
  if (!isPlace(0, bytes)) throw new RangeError(`a payload of ${bytes} bytes`);
  return Math.ceil(bytes / CHUNK_BYTES);
}

/** The only length chunk `index` of such a payload can have. */
export function chunkLength(index: number, bytes: number): number {
  if (!isPlace(index, bytes)) throw new RangeError(`chunk ${index} of ${bytes} bytes`);
  return Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
}

/** The chunks in order: views, nothing is copied. */
export function splitChunks(payload: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: chunkCount(payload.length) }, (_, index) =>
    payload.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
  );
}
