/** Encodes scalars as a TensorBoard event file: TFRecords with masked CRC-32C around protobuf messages. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { concatBytes } from '../../base/bytes.ts';

export interface Scalar {
  readonly tag: string;
  readonly step: number;
  readonly value: number;
  /** Unix seconds; 0 if not known. */
  readonly wallTime: number;
}

export const tensorboardFile = (scalars: readonly Scalar[]): Uint8Array =>
  concatBytes(record(versionEvent()), ...scalars.map((scalar) => record(scalarEvent(scalar))));

/** One TFRecord: length, its checksum, the bytes, their checksum; little-endian. */
function record(bytes: Uint8Array): Uint8Array {
  const head = new Uint8Array(8);
  new DataView(head.buffer).setBigUint64(0, BigInt(bytes.length), true);
  return concatBytes(head, masked(head), bytes, masked(bytes));
}

const MASK_DELTA = 0xa282ead8;

/** The masked CRC of TFRecord: rotated by 15 bits, plus a constant, so that data with embedded CRCs is safe. */
function masked(bytes: Uint8Array): Uint8Array {
  const crc = crc32c(bytes);
  const out = new Uint8Array(4);
  const rotated = ((crc >>> 15) | (crc << 17)) >>> 0;
  new DataView(out.buffer).setUint32(0, (rotated + MASK_DELTA) >>> 0, true);
  return out;
}

/** Table of the reflected Castagnoli polynomial. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value >>> 0;
});

export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff]!;
  return (crc ^ 0xffffffff) >>> 0;
}

const wallTime = (seconds: number): BinaryWriter =>
  new BinaryWriter().tag(1, WireType.Bit64).double(seconds);

/** Event{wall_time = 1, file_version = 3}. */
const versionEvent = (): Uint8Array =>
  wallTime(0).tag(3, WireType.LengthDelimited).string('brain.Event:2').finish();

/** Event{wall_time = 1, step = 2, summary = 5: Summary{value = 1: {tag = 1, simple_value = 2}}}. */
const scalarEvent = ({ tag, step, value, wallTime: seconds }: Scalar): Uint8Array =>
  wallTime(seconds)
    .tag(2, WireType.Varint)
    .int64(step)
    .tag(5, WireType.LengthDelimited)
    .fork()
    .tag(1, WireType.LengthDelimited)
    .fork()
    .tag(1, WireType.LengthDelimited)
    .string(tag)
    .tag(2, WireType.Bit32)
    .float(value)
    .join()
    .join()
    .finish();
