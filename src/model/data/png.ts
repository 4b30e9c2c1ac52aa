/**
 * What of a PNG file is safe to decode: its chunks are whole, its sizes are bounded before a pixel is unpacked, and its pixels unpack to
 * exactly as many bytes as its header says. Text, colour profiles and animation are left out. For `picture-file.ts`.
 */
import { unzlibSync } from 'fflate';
import { concatBytes, crc32 } from '../../base/bytes.ts';

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

export const isPng = (bytes: Uint8Array): boolean =>
  SIGNATURE.every((byte, i) => bytes[i] === byte);

export interface PngHeader {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  /** As the format numbers it: 0 grey, 2 colours, 3 a palette, 4 and 6 with opacity. */
  readonly colorType: number;
}

/** Samples of a pixel by colour type. */
const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** Chunks that pixels depend on. */
const NEEDED = ['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'];

/** First column, first row and the steps between, of the seven passes of an interlaced picture. */
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

interface Chunk {
  readonly type: string;
  /** With length, type and check sum. */
  readonly whole: Uint8Array;
  readonly data: Uint8Array;
}

/** Throws an Error in plain words where the file is cut off or broken. */
function* chunksOf(bytes: Uint8Array): Generator<Chunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = SIGNATURE.length; at < bytes.length; ) {
    if (at + 12 > bytes.length) throw new Error('it is cut off');
    const length = view.getUint32(at);
    const end = at + 12 + length;
    if (end > bytes.length) throw new Error('it is cut off');
    const checked = bytes.subarray(at + 4, end - 4);
    if (crc32(checked) !== view.getUint32(end - 4)) throw new Error('a check sum in it is wrong');
    const type = String.fromCharCode(...checked.subarray(0, 4));
    yield { type, whole: bytes.subarray(at, end), data: checked.subarray(4) };
    if (type === 'IEND') return;
    at = end;
  }
  throw new Error('it is cut off');
}

/** The header alone: nothing behind it is looked at. */
export function readPngHeader(bytes: Uint8Array): PngHeader {
  const first = chunksOf(bytes).next().value;
  if (first?.type !== 'IHDR' || first.data.length !== 13) throw new Error('it has no header');
  const view = new DataView(first.data.buffer, first.data.byteOffset, 13);
  return {
    width: view.getUint32(0),
    height: view.getUint32(4),
    depth: view.getUint8(8),
    colorType: view.getUint8(9),
  };
}

/** The file with what pixels depend on and nothing else, once all of that is there. The sizes of its header are bounded already. */
export function neededOfPng(bytes: Uint8Array, header: PngHeader): Uint8Array {
  const chunks = [...chunksOf(bytes)].filter(({ type }) => NEEDED.includes(type));
  const isInterlaced = chunks[0]!.data[12] === 1;
  if (isInterlaced && header.depth < 8) {
    throw new Error('it is interlaced with fewer than 8 bits a sample, which is not read here');
  }
  if (header.colorType === 3 && !chunks.some(({ type }) => type === 'PLTE')) {
    throw new Error('it has no palette');
  }
  const packed = chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data);
  const wanted = unpackedBytes(header, isInterlaced);
  // one byte more than wanted shows that there is more; nothing beyond it is kept
  const { length } = unzlibSync(concatBytes(...packed), { out: new Uint8Array(wanted + 1) });
  if (length !== wanted) {
    throw new Error(`its pixels are ${length} bytes, its header says ${wanted}`);
  }
  return concatBytes(Uint8Array.from(SIGNATURE), ...chunks.map(({ whole }) => whole));
}

function unpackedBytes(
  { width, height, depth, colorType }: PngHeader,
  isInterlaced: boolean,
): number {
  const bits = depth * (SAMPLES[colorType] ?? 0);
  const pass = (columns: number, rows: number) =>
    columns === 0 ? 0 : rows * (1 + Math.ceil((columns * bits) / 8));
  if (!isInterlaced) return pass(width, height);
  return PASSES.reduce((sum, [left, top, right, down]) => {
    const columns = Math.max(0, Math.ceil((width - left) / right));
    return sum + pass(columns, Math.max(0, Math.ceil((height - top) / down)));
  }, 0);
}
