/** Hand-made NSTR payloads, valid and invalid, written without the encoder. */
import { deflateSync } from 'node:zlib';

export interface Block {
  magic: string;
  version: number;
  ratio: number;
  total: number;
  tensors: number;
  scale: number;
  named: { name: string; shape: number[] }[];
  indices: number[];
  quantized: number[];
  /** Count of sent values in the header, if it differs from the real one. */
  selected?: number;
  trailing?: Buffer;
}

/** A valid block over tensors a [2] and b [3]: values 63.5 at 1 and -25 at 3. */
export const validBlock = (): Block => ({
  magic: 'NSTR',
  version: 1,
  ratio: 0.4,
  total: 5,
  tensors: 2,
  scale: 0.5,
  named: [
    { name: 'a', shape: [2] },
    { name: 'b', shape: [3] },
  ],
  indices: [1, 3],
  quantized: [127, -50],
});

export function blockBytes(block: Block): Buffer {
  const head = Buffer.alloc(31);
  head.write(block.magic, 0, 'latin1');
  head.writeUInt8(block.version, 4);
  head.writeDoubleLE(block.ratio, 5);
  head.writeUInt32LE(block.total, 13);
  head.writeUInt32LE(block.selected ?? block.indices.length, 17);
  head.writeUInt16LE(block.tensors, 21);
  head.writeDoubleLE(block.scale, 23);
  const descriptors = block.named.flatMap(({ name, shape }) => {
    const text = Buffer.from(name);
    return [u16(text.length), text, u16(shape.length), ...shape.map(u32)];
  });
  const values = Buffer.from(Int8Array.from(block.quantized).buffer);
  const trailing = block.trailing ?? Buffer.alloc(0);
  return Buffer.concat([head, ...descriptors, ...block.indices.map(u32), values, trailing]);
}

export const payloadOf = (block: Block): string => containerOf(deflateSync(blockBytes(block)));

export const containerOf = (stream: Uint8Array, codec = 1): string =>
  Buffer.concat([Buffer.from('NSCP'), Buffer.of(1, codec), stream]).toString('base64');

const u16 = (value: number): Buffer => {
  const out = Buffer.alloc(2);
  out.writeUInt16LE(value);
  return out;
};

const u32 = (value: number): Buffer => {
  const out = Buffer.alloc(4);
  out.writeUInt32LE(value);
  return out;
};
