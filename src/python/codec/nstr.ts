/**
 * The payload of a gradient event, byte for byte as the Python reference: the k largest values of a delta as int8 with
 * one scale. The caller takes care of signs. Decoding checks all sizes against the expected layout before it allocates.
 */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { ConfigError, ok, type Result, refuse, TrainingError } from '../../base/errors.ts';
import { pythonFixed } from '../../formats/python-json.ts';
import type { Layout, Params, Vector } from '../../tensor/params.ts';
import type { SparseVector } from '../../tensor/partial-vector.ts';
import {
  type BlockCodec,
  type ContainerLimits,
  type OpenContainer,
  openContainer,
  sealContainer,
  type Zstd,
} from './container.ts';

/** Returns how many of `total` values a ratio sends: the product in double arithmetic, rounded up, at least one. */
export function selectedCount(total: number, ratio: number): number {
  if (!(ratio > 0 && ratio <= 1)) {
    throw new ConfigError('codec/ratio', `the sent share must be within (0, 1], not ${ratio}`, {
      hint: 'use 1 to send every value or, for example, 0.1 to send a tenth',
    });
  }
  return Math.min(total, Math.max(1, Math.ceil(total * ratio)));
}

/** Returns the ascending indices of the `count` largest magnitudes; at equal magnitude the lower index comes first. */
export function selectLargest(values: Vector, count: number): Uint32Array {
  const sent = values
    .map(Math.abs)
    .sort()
    .subarray(values.length - count);
  const least = sent[0]!;
  let ties = sent.lastIndexOf(least) + 1;
  const out = new Uint32Array(count);
  let at = 0;
  for (let i = 0; at < count; i++) {
    const size = Math.abs(values[i]!);
    if (size > least || (size === least && ties-- > 0)) out[at++] = i;
  }
  return out;
}

/** Magic number "NSTR" and version 1. */
const MAGIC = [0x4e, 0x53, 0x54, 0x52, 1];
/** Bytes before the tensor descriptors. */
export const FIXED_HEADER_BYTES = 31;
/** Bytes of one sent value: a u32 index and an i8. */
export const ENTRY_BYTES = 5;

/** The fixed header of a block. */
export interface NstrHeader {
  /** The share of values the sender requested, not the share it sent. */
  readonly ratio: number;
  readonly total: number;
  readonly selected: number;
  readonly tensors: number;
  readonly scale: number;
}

/** Sizes and settings of one payload. */
export interface NstrStats extends NstrHeader {
  readonly codec: BlockCodec;
  readonly density: number;
  /** Bytes of the container before base64. */
  readonly containerBytes: number;
  readonly payloadChars: number;
  /** Bytes of all values as f32. */
  readonly denseBytes: number;
  readonly compressionRatio: number;
  readonly label: string;
}

/** Returns the header bytes up to the tensor descriptors. */
function writeHeader({ ratio, total, selected, tensors, scale }: NstrHeader): Uint8Array {
  const out = new Uint8Array(FIXED_HEADER_BYTES);
  const view = new DataView(out.buffer);
  out.set(MAGIC);
  view.setFloat64(5, ratio, true);
  view.setUint32(13, total, true);
  view.setUint32(17, selected, true);
  view.setUint16(21, tensors, true);
  view.setFloat64(23, scale, true);
  return out;
}

/** Reads the fields of a header without checking them; undefined if the block has another format. */
function readHeader(block: Uint8Array): NstrHeader | undefined {
  if (block.length < FIXED_HEADER_BYTES || MAGIC.some((byte, i) => block[i] !== byte)) {
    return undefined;
  }
  const view = new DataView(block.buffer, block.byteOffset, FIXED_HEADER_BYTES);
  return {
    ratio: view.getFloat64(5, true),
    total: view.getUint32(13, true),
    selected: view.getUint32(17, true),
    tensors: view.getUint16(21, true),
    scale: view.getFloat64(23, true),
  };
}

/** Returns names and shapes of a layout in the format of a block. */
function describeTensors(layout: Layout): Uint8Array {
  if (layout.slots.length > 0xffff || layout.size > 0xffff_ffff) {
    throw new ConfigError(
      'codec/layout',
      `${layout.slots.length} tensors of ${layout.size} values do not fit an NSTR payload`,
    );
  }
  return concatBytes(...layout.slots.map(({ name, shape }) => describe(name, shape)));
}

function describe(name: string, shape: readonly number[]): Uint8Array {
  const bytes = utf8(name);
  if (bytes.length > 0xffff || shape.length > 0xffff || shape.some((dim) => dim > 0xffff_ffff)) {
    throw new ConfigError(
      'codec/layout',
      `tensor ${name.slice(0, 80)} does not fit an NSTR payload`,
    );
  }
  const out = new Uint8Array(4 + bytes.length + 4 * shape.length);
  const view = new DataView(out.buffer);
  view.setUint16(0, bytes.length, true);
  out.set(bytes, 2);
  view.setUint16(2 + bytes.length, shape.length, true);
  shape.forEach((dim, i) => {
    view.setUint32(4 + bytes.length + 4 * i, dim, true);
  });
  return out;
}

/** Computes sizes and settings from a header and the size of its container. */
function payloadStats(
  header: NstrHeader,
  { codec, containerBytes }: Pick<NstrStats, 'codec' | 'containerBytes'>,
  payloadChars: number,
): NstrStats {
  const denseBytes = 4 * header.total;
  return {
    ...header,
    codec,
    density: header.selected / header.total,
    containerBytes,
    payloadChars,
    denseBytes,
    compressionRatio: denseBytes / containerBytes,
    label: compressionLabel(header.ratio, codec),
  };
}

/** Returns the value of the `compression` tag. */
export const compressionLabel = (ratio: number, codec: BlockCodec): string =>
  `topk-${pythonFixed(ratio, 4)}-int8-${codec}`;

/** The result of `compressDelta`: the payload, and what receivers decode from it. */
export interface EncodedNstr {
  /** The container in base64: the content of the event. */
  readonly payload: string;
  readonly container: Uint8Array;
  /** Exactly what a receiver decodes; the delta minus this is the residual. */
  readonly sent: SparseVector;
  readonly stats: NstrStats;
}

export interface NstrLimits extends ContainerLimits {
  readonly layout: Layout;
}

export interface NstrEncoding {
  /** Share of the values to send. */
  readonly ratio: number;
  /** Compresses with zstd instead of zlib. */
  readonly zstd?: Zstd | undefined;
}

/** Encodes a delta. Throws if it is empty or not finite, or if int8 with one scale cannot represent it. */
export function encodeNstr({ layout, values }: Params, { ratio, zstd }: NstrEncoding): EncodedNstr {
  const total = layout.size;
  if (total === 0) throw new ConfigError('codec/empty', 'a delta has no values');
  if (values.length !== total)
    throw new RangeError(`${values.length} values for a layout of ${total}`);
  const count = selectedCount(total, ratio);
  const peak = largestMagnitude(values);
  const scale = peak === 0 ? 1 : peak / 127;
  if (scale === 0 || !Number.isFinite(127 * scale)) {
    throw new TrainingError('codec/range', `a delta with largest value ${peak} has no int8 scale`, {
      hint: 'check the learning rate: healthy training does not produce such extreme values',
    });
  }
  const indices = selectLargest(values, count);
  const quantized = quantize(values, indices, scale);
  const header: NstrHeader = {
    ratio,
    total,
    selected: count,
    tensors: layout.slots.length,
    scale,
  };
  const block = concatBytes(
    writeHeader(header),
    describeTensors(layout),
    littleEndian(indices),
    new Uint8Array(quantized.buffer),
  );
  const { container, payload } = sealContainer(block, zstd);
  const codec = zstd === undefined ? 'zlib' : 'zstd';
  return {
    payload,
    container,
    sent: { size: total, indices, values: Float64Array.from(quantized, (q) => q * scale) },
    stats: payloadStats(header, { codec, containerBytes: container.length }, payload.length),
  };
}

function largestMagnitude(values: Vector): number {
  let peak = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]!);
    if (!Number.isFinite(size)) {
      throw new TrainingError('codec/not-finite', `value ${i} of the delta is ${values[i]}`, {
        hint: 'training diverged; lower the learning rate or clip gradients',
      });
    }
    if (size > peak) peak = size;
  }
  return peak;
}

/** Returns value / scale, rounded half to even, within [-127, 127]. */
function quantize(values: Vector, indices: Uint32Array, scale: number): Int8Array<ArrayBuffer> {
  const out = new Int8Array(indices.length);
  for (let i = 0; i < indices.length; i++) {
    const exact = values[indices[i]!]! / scale;
    const floor = Math.floor(exact);
    const rest = exact - floor;
    const up = rest > 0.5 || (rest === 0.5 && floor % 2 !== 0);
    out[i] = Math.max(-127, Math.min(127, up ? floor + 1 : floor));
  }
  return out;
}

function littleEndian(words: Uint32Array): Uint8Array {
  const out = new Uint8Array(4 * words.length);
  const view = new DataView(out.buffer);
  for (let i = 0; i < words.length; i++) view.setUint32(4 * i, words[i]!, true);
  return out;
}

/** Decodes an untrusted payload, in base64 or bytes, if it agrees with the layout in every byte. */
export function decodeNstr(
  payload: string | Uint8Array,
  { layout, ...limits }: NstrLimits,
): Result<{ readonly delta: SparseVector; readonly stats: NstrStats }> {
  const descriptors = describeTensors(layout);
  const mostBytes = FIXED_HEADER_BYTES + descriptors.length + ENTRY_BYTES * layout.size;
  const opened = openContainer(payload, limits, mostBytes);
  if (!opened.ok) return opened;
  const header = openHeader(opened.value, layout, descriptors);
  if (!header.ok) return header;
  const { selected, scale } = header.value;
  const start = FIXED_HEADER_BYTES + descriptors.length;
  const length = start + ENTRY_BYTES * selected;
  const { bytes, end } = opened.value.atMost(length);
  if (end === 'broken') return refuse('bad-deflate', 'container', 'the zlib stream is invalid');
  if (end === 'more') return refuse('trailing-bytes', 'block', `more than ${length} bytes`);
  if (bytes.length < length) {
    return refuse('truncated', 'block', `${bytes.length} bytes, the header states ${length}`);
  }
  const delta = readEntries(bytes.subarray(start), selected, layout.size, scale);
  if (!delta.ok) return delta;
  const stats = payloadStats(header.value, opened.value, payload.length);
  return ok({ delta: delta.value, stats });
}

/** Inflates the fixed header and at most `descriptorBytes` bytes of descriptors. */
export function openHead(
  opened: OpenContainer,
  descriptorBytes: number,
): Result<{ readonly bytes: Uint8Array; readonly header: NstrHeader }> {
  const { bytes, end } = opened.atMost(FIXED_HEADER_BYTES + descriptorBytes);
  if (end === 'broken') return refuse('bad-deflate', 'container', 'the zlib stream is invalid');
  const header = readHeader(bytes);
  return header === undefined
    ? refuse('bad-block', 'block', 'not an NSTR block of version 1')
    : ok({ bytes, header });
}

/** Inflates the header only and compares it with the layout. */
function openHeader(
  opened: OpenContainer,
  layout: Layout,
  descriptors: Uint8Array,
): Result<NstrHeader> {
  const head = openHead(opened, descriptors.length);
  if (!head.ok) return head;
  const { bytes, header } = head.value;
  const { total, tensors, selected, scale, ratio } = header;
  if (total !== layout.size || tensors !== layout.slots.length) {
    const expected = `${layout.size} values in ${layout.slots.length}`;
    return refuse('wrong-shape', 'block', `${total} values in ${tensors} tensors, not ${expected}`);
  }
  const named = bytes.subarray(FIXED_HEADER_BYTES);
  if (named.length !== descriptors.length || named.some((byte, i) => byte !== descriptors[i])) {
    return refuse('wrong-shape', 'block', 'other tensor names or shapes');
  }
  if (selected < 1 || selected > total) {
    return refuse('wrong-shape', 'block', `${selected} of ${total} values sent`);
  }
  if (!Number.isFinite(scale) || !Number.isFinite(127 * scale)) {
    return refuse('not-finite', 'block', `scale ${scale}`);
  }
  if (scale <= 0) return refuse('bad-scale', 'block', `scale ${scale}`);
  if (!(ratio > 0 && ratio <= 1)) return refuse('bad-ratio', 'block', `ratio ${ratio}`);
  return ok(header);
}

/** Reads the ascending indices and the int8 values; refuses indices out of range and the value -128. */
function readEntries(
  bytes: Uint8Array,
  count: number,
  size: number,
  scale: number,
): Result<SparseVector> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const indices = new Uint32Array(count);
  const values = new Float64Array(count);
  let previous = -1;
  for (let i = 0; i < count; i++) {
    const index = view.getUint32(4 * i, true);
    if (index <= previous || index >= size) {
      const why = index >= size ? `is not below ${size}` : `follows ${previous}`;
      return refuse('bad-index', `block.indices.${i}`, `index ${index} ${why}`);
    }
    const quantized = view.getInt8(4 * count + i);
    if (quantized === -128) {
      return refuse('bad-value', `block.values.${i}`, '-128 is not a quantized value');
    }
    previous = index;
    indices[i] = index;
    values[i] = quantized * scale;
  }
  return ok({ size, indices, values });
}
