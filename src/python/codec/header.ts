/** The fixed and the variable part of an NSTR block's header, and what people are told about a payload. */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { pythonFixed } from '../../formats/python-json.ts';
import type { Layout } from '../../tensor/params.ts';
import type { BlockCodec } from './container.ts';

/** N S T R, version 1. */
const MAGIC = [0x4e, 0x53, 0x54, 0x52, 1];
/** Bytes before the tensor descriptors. */
export const FIXED_HEADER_BYTES = 31;
/** Bytes of one sent value: a u32 index and an i8. */
export const ENTRY_BYTES = 5;

export interface NstrHeader {
  /** The share the sender asked for, not the one reached. */
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
  /** The container, before base64. */
  readonly containerBytes: number;
  readonly payloadChars: number;
  /** The same values as plain f32. */
  readonly denseBytes: number;
  readonly compressionRatio: number;
  readonly label: string;
}

/** Header bytes up to the tensor descriptors. */
export function writeHeader({ ratio, total, selected, tensors, scale }: NstrHeader): Uint8Array {
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

/** The fields of a header, or undefined when the block is of another format; nothing is judged yet. */
export function readHeader(block: Uint8Array): NstrHeader | undefined {
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

/** Names and shapes of a layout as the block spells them. */
export function describeTensors(layout: Layout): Uint8Array {
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

/** What a header and the container's size say together. */
export function payloadStats(
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

/** The `compression` tag. */
export const compressionLabel = (ratio: number, codec: BlockCodec): string =>
  `topk-${pythonFixed(ratio, 4)}-int8-${codec}`;
