/**
 * Decodes PNG and JPEG files to RGB, with the same result on every machine, in pure JavaScript. Files are untrusted:
 * sizes in the header are checked first. Transparency is blended over white; EXIF orientation is ignored.
 */

import { type DecodedPng, decode as decodePng } from 'fast-png';
import { unzlibSync } from 'fflate';
import jpeg from 'jpeg-js';
import { concatBytes, crc32 } from '../../base/bytes.ts';
import { ConfigError, wordsOf } from '../../base/errors.ts';

/** Maximum pixels of a picture, which is decoded in memory. */
const MOST_PIXELS = 2 ** 24;
const MOST_SIDE = 16_384;
/** Maximum bytes of a picture file. */
export const MOST_FILE_BYTES = 2 ** 25;
const MOST_MEGABYTES = 512;

/** A decoded picture: red, green and blue of each pixel, row by row. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly colours: Uint8Array;
}

/** Decodes a picture. Throws `data/pictures` that names the file and the problem. */
export function decodePicture(bytes: Uint8Array, name: string): Picture {
  try {
    if (isPng(bytes)) return fromPng(bytes, name);
    if (bytes[0] === 0xff && bytes[1] === 0xd8) return fromJpeg(bytes, name);
  } catch (error) {
    throw error instanceof ConfigError ? error : undecodable(name, error);
  }
  throw new ConfigError('data/pictures', `${name} is neither a PNG nor a JPEG file`, {
    hint: 'save it as PNG or JPEG, or remove it',
  });
}

function undecodable(name: string, cause: unknown): ConfigError {
  return new ConfigError('data/pictures', `${name} cannot be decoded: ${wordsOf(cause)}`, {
    hint: 'save it again as PNG or JPEG, or remove it',
    cause,
  });
}

function assertSizes(width: number, height: number, name: string): void {
  const isFine = width > 0 && height > 0 && width * height <= MOST_PIXELS;
  if (isFine && Math.max(width, height) <= MOST_SIDE) return;
  throw new ConfigError(
    'data/pictures',
    `${name} has ${width} x ${height} pixels; the limits are ${MOST_PIXELS} and a side of ` +
      `${MOST_SIDE}`,
    { hint: 'scale it down: models read small pictures' },
  );
}

function fromPng(bytes: Uint8Array, name: string): Picture {
  const header = readPngHeader(bytes);
  const { width, height } = header;
  assertSizes(width, height, name);
  const png = decodePng(neededOfPng(bytes, header));
  const sample = samplesOf(png);
  const colours = new Uint8Array(width * height * 3);
  for (let at = 0; at < width * height; at++) {
    const [red, green, blue, opacity] = colourAt(png, sample, at);
    colours.set(
      [red, green, blue].map((value) => overWhite(value, opacity)),
      at * 3,
    );
  }
  return { width, height, colours };
}

/** Returns a reader of single samples. With fewer than 8 bits per sample, each line starts at a new byte. */
function samplesOf({ width, channels, depth, data }: DecodedPng) {
  if (depth >= 8) return (at: number, i: number) => data[at * channels + i]!;
  const line = Math.ceil((width * depth) / 8);
  return (at: number) => {
    const [row, column] = [Math.floor(at / width), at % width];
    const byte = data[row * line + Math.floor((column * depth) / 8)]!;
    return (byte >> (8 - depth - ((column * depth) % 8))) & (2 ** depth - 1);
  };
}

type Colour = readonly [red: number, green: number, blue: number, opacity: number];

function colourAt(
  { channels, depth, palette, transparency }: DecodedPng,
  sample: (at: number, i: number) => number,
  at: number,
): Colour {
  if (palette) {
    const entry = palette[sample(at, 0)];
    if (!entry) throw new Error('a pixel uses a color that its palette lacks');
    return [entry[0]!, entry[1]!, entry[2]!, entry[3] ?? 255];
  }
  const raw = Array.from({ length: channels }, (_, i) => sample(at, i));
  const scaledSamples = raw.map((value) =>
    depth === 16 ? value >> 8 : Math.round((value * 255) / (2 ** depth - 1)),
  );
  const isKey =
    transparency?.length === channels && raw.every((value, i) => value === transparency[i]);
  const [first = 0, second = 0, third = 0, fourth = 255] = scaledSamples;
  if (channels <= 2) return [first, first, first, isKey ? 0 : channels === 2 ? second : 255];
  return [first, second, third, isKey ? 0 : fourth];
}

const overWhite = (value: number, opacity: number): number =>
  opacity === 255 ? value : Math.round((value * opacity + 255 * (255 - opacity)) / 255);

function fromJpeg(bytes: Uint8Array, name: string): Picture {
  const { width, height } = jpegSizes(bytes);
  assertSizes(width, height, name);
  const { data } = jpeg.decode(bytes, {
    useTArray: true,
    formatAsRGBA: false,
    tolerantDecoding: false,
    maxResolutionInMP: MOST_PIXELS / 1e6,
    maxMemoryUsageInMB: MOST_MEGABYTES,
  });
  if (data.length !== width * height * 3) throw new Error('the file is truncated');
  return { width, height, colours: data };
}

/** Returns the sizes in the first frame of a JPEG; skips the markers before it by their lengths. */
function jpegSizes(bytes: Uint8Array): { readonly width: number; readonly height: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 2; at + 9 <= bytes.length; ) {
    if (bytes[at] !== 0xff) throw new Error('the file is damaged before its first frame');
    const marker = bytes[at + 1]!;
    // fill bytes
    if (marker === 0xff) at += 1;
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    } else at += 2 + view.getUint16(at + 2);
  }
  throw new Error('the file is truncated');
}

/** Weights of red, green and blue in the brightness, in thousandths. */
const WEIGHTS = [299, 587, 114] as const;

/** Converts a square to the model's channels; to gray for one channel. */
export const inChannels = (square: Uint8Array, channels: number): Uint8Array =>
  channels === WEIGHTS.length
    ? square
    : Uint8Array.from({ length: square.length / WEIGHTS.length }, (_, at) =>
        Math.round(
          WEIGHTS.reduce((sum, weight, i) => sum + weight * square[WEIGHTS.length * at + i]!, 0) /
            1000,
        ),
      );

/**
 * Crops the middle of a picture to a square and scales it; each pixel is the mean of the area it covers, in integers.
 */
export function squareOf({ width, height, colours }: Picture, pixels: number): Uint8Array {
  const side = Math.min(width, height);
  const [left, top] = [(width - side) >> 1, (height - side) >> 1];
  // in units of 1/pixels of a source pixel: source pixel i starts at i * pixels, target pixel x at x * side
  const covered = Array.from({ length: pixels }, (_, x) => {
    const [from, to] = [x * side, (x + 1) * side];
    const first = Math.floor(from / pixels);
    const last = Math.ceil(to / pixels);
    return Array.from({ length: last - first }, (_, i) => {
      const at = (first + i) * pixels;
      return [first + i, Math.min(to, at + pixels) - Math.max(from, at)] as const;
    });
  });
  const square = new Uint8Array(pixels * pixels * 3);
  const all = side * side;
  covered.forEach((rows, y) => {
    covered.forEach((columns, x) => {
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0;
        for (const [row, tall] of rows) {
          for (const [column, wide] of columns) {
            sum += tall * wide * colours[((top + row) * width + left + column) * 3 + channel]!;
          }
        }
        square[(y * pixels + x) * 3 + channel] = Math.floor((2 * sum + all) / (2 * all));
      }
    });
  });
  return square;
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

const isPng = (bytes: Uint8Array): boolean => SIGNATURE.every((byte, i) => bytes[i] === byte);

export interface PngHeader {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  /** PNG color type: 0 gray, 2 RGB, 3 palette, 4 gray with alpha, 6 RGB with alpha. */
  readonly colorType: number;
}

/** Samples per pixel by color type. */
const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** PNG chunks that pixels depend on. */
const NEEDED = ['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND'];

/** First column, first row and steps of the seven passes of an interlaced PNG. */
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
  /** The whole chunk, with length, type and checksum. */
  readonly whole: Uint8Array;
  readonly data: Uint8Array;
}

/** Yields the chunks of a PNG. Throws an Error if the file is truncated or damaged. */
function* chunksOf(bytes: Uint8Array): Generator<Chunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = SIGNATURE.length; at < bytes.length; ) {
    if (at + 12 > bytes.length) throw new Error('the file is truncated');
    const length = view.getUint32(at);
    const end = at + 12 + length;
    if (end > bytes.length) throw new Error('the file is truncated');
    const checked = bytes.subarray(at + 4, end - 4);
    if (crc32(checked) !== view.getUint32(end - 4))
      throw new Error('a checksum in the file is wrong');
    const type = String.fromCharCode(...checked.subarray(0, 4));
    yield { type, whole: bytes.subarray(at, end), data: checked.subarray(4) };
    if (type === 'IEND') return;
    at = end;
  }
  throw new Error('the file is truncated');
}

/** Reads only the header. */
function readPngHeader(bytes: Uint8Array): PngHeader {
  const first = chunksOf(bytes).next().value;
  if (first?.type !== 'IHDR' || first.data.length !== 13) throw new Error('the file has no header');
  const view = new DataView(first.data.buffer, first.data.byteOffset, 13);
  return {
    width: view.getUint32(0),
    height: view.getUint32(4),
    depth: view.getUint8(8),
    colorType: view.getUint8(9),
  };
}

/** Returns the file reduced to the needed chunks. Throws if the pixels are incomplete or more than the header says. */
function neededOfPng(bytes: Uint8Array, header: PngHeader): Uint8Array {
  const chunks = [...chunksOf(bytes)].filter(({ type }) => NEEDED.includes(type));
  const isInterlaced = chunks[0]!.data[12] === 1;
  if (isInterlaced && header.depth < 8) {
    throw new Error('interlacing with fewer than 8 bits per sample is not supported');
  }
  if (header.colorType === 3 && !chunks.some(({ type }) => type === 'PLTE')) {
    throw new Error('the file has no palette');
  }
  const packed = chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data);
  const wanted = unpackedBytes(header, isInterlaced);
  // one byte more than expected reveals extra data, which is not kept
  const { length } = unzlibSync(concatBytes(...packed), { out: new Uint8Array(wanted + 1) });
  if (length !== wanted) {
    throw new Error(`its pixels take ${length} bytes, but its header implies ${wanted}`);
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
