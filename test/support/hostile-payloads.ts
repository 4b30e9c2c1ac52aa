/** N-14: payloads that lie to a receiver of 834,048 parameters, each with the reason for which it must be refused. */
import { constants, deflateRawSync, deflateSync } from 'node:zlib';
import type { Result } from 'nostrain/base';
import { decodePayload, encodePayload, PAYLOAD_HEADER_BYTES, type Packing } from 'nostrain/network';
import { decodeNstr } from 'nostrain/python/parts';
import { createLayout } from 'nostrain/tensor';
import { type Block, blockBytes, containerOf } from '../python/support/nstr-blocks.ts';
import { scopeOf } from './drawn-delta.ts';
import { drawn } from './payload-vectors.ts';

export const HOSTILE_SIZE = 834_048;

export interface HostilePayload {
  readonly name: string;
  readonly refused: string;
  /** Bytes as they arrive. */
  readonly bytes: number;
  readonly decode: () => Result<unknown>;
}

const scope = scopeOf(HOSTILE_SIZE);

function nspl(name: string, refused: string, bytes: Uint8Array): HostilePayload {
  return { name, refused, bytes: bytes.length, decode: () => decodePayload(bytes, scope) };
}

/** Compact payloads; what is wrong is in the last chunk where it can be, so that all the others are read first. */
function compact(): HostilePayload[] {
  const delta = drawn(HOSTILE_SIZE, 1);
  const encode = (packing: Packing) => encodePayload(delta, packing, scope).payload;
  const int8 = encode({ codec: 'int8', kept: 0 });
  const trellis = encode({ codec: 'trellis', kept: 256 });
  const edited = (payload: Uint8Array, at: number, ...bytes: number[]) => {
    const copy = payload.slice();
    copy.set(bytes, at);
    return copy;
  };
  // 834,048 leave 2,560 values for the last chunk
  const lastLevel = int8.length - 2 - 2560;
  return [
    nspl('2^32 - 1 parameters', 'wrong-shape', edited(int8, 12, 255, 255, 255, 255)),
    nspl('2^32 - 1 chunks', 'wrong-shape', edited(int8, 16, 255, 255, 255, 255)),
    nspl('a level of NaN', 'bad-level', edited(int8, lastLevel, 0xc0, 0x7f)),
    nspl('an infinite level', 'bad-level', edited(int8, lastLevel, 0x80, 0x7f)),
    nspl('a code of −128', 'bad-value', edited(int8, int8.length - 1, 128)),
    nspl('a scale above the largest', 'bad-level', edited(trellis, 84, 0x81, 0x77)),
    nspl('a removed codec', 'unsupported-codec', edited(int8, 5, 4)),
    nspl('the last byte missing', 'truncated', int8.subarray(0, -1)),
    nspl('a header alone', 'truncated', trellis.subarray(0, PAYLOAD_HEADER_BYTES)),
    nspl('16 MB behind it', 'trailing-bytes', Buffer.concat([int8, Buffer.alloc(16 << 20)])),
  ];
}

const layout = createLayout([{ name: 'all', shape: [HOSTILE_SIZE] }]);
const limits = { layout, maxContainerBytes: 8 << 20 };

function nstr(name: string, refused: string, container: string): HostilePayload {
  const bytes = Buffer.from(container, 'base64');
  return { name, refused, bytes: bytes.length, decode: () => decodeNstr(bytes, limits) };
}

/** A zlib stream that begins with this block and goes on with a number of MiB of zeros, made without as much memory. */
function bomb(block: Buffer, mebibytes: number): Buffer {
  const flushed = { level: 9, finishFlush: constants.Z_FULL_FLUSH };
  const zeros = deflateRawSync(Buffer.alloc(1 << 20), flushed);
  const parts = Array.from({ length: mebibytes }, () => zeros);
  const header = Buffer.of(0x78, 0x9c);
  // neither the end nor the checksum is ever reached
  return Buffer.concat([header, deflateRawSync(block, flushed), ...parts, Buffer.alloc(8)]);
}

/** Payloads in the reference's format, three tenths of the values in each. */
function reference(): HostilePayload[] {
  const count = 250_000;
  const indices = Array.from({ length: count }, (_, i) => 3 * i);
  const block: Block = {
    magic: 'NSTR',
    version: 1,
    ratio: 0.3,
    total: HOSTILE_SIZE,
    tensors: 1,
    scale: 0.5,
    named: [{ name: 'all', shape: [HOSTILE_SIZE] }],
    indices,
    quantized: indices.map((i) => i % 120),
  };
  const last = (index: number) => ({ indices: [...indices.slice(0, -1), index] });
  const sealed = (change: Partial<Block>) =>
    containerOf(deflateSync(blockBytes({ ...block, ...change }), { level: 1 }));
  const named = Array.from({ length: 10_000 }, (_, i) => ({ name: `t${i}`, shape: [1] }));
  const empty = { ...block, indices: [], quantized: [] };
  const most = blockBytes({ ...empty, selected: HOSTILE_SIZE });
  return [
    nstr('zip bomb, 1 KB to 1 MiB', 'bad-block', containerOf(bomb(Buffer.alloc(0), 1))),
    nstr('zip bomb, 1 MB to 1 GiB', 'bad-block', containerOf(bomb(Buffer.alloc(0), 1024))),
    nstr('zip bomb behind a good header', 'trailing-bytes', containerOf(bomb(most, 1024))),
    nstr('total_values = 2^32 - 1', 'wrong-shape', sealed({ total: 0xffffffff })),
    nstr('2^32 - 1 values sent', 'wrong-shape', sealed({ selected: 0xffffffff })),
    nstr('a repeated index', 'bad-index', sealed(last(indices[count - 2]!))),
    nstr('an index out of range', 'bad-index', sealed(last(HOSTILE_SIZE))),
    nstr('a scale of NaN', 'not-finite', sealed({ scale: Number.NaN })),
    nstr('an infinite scale', 'not-finite', sealed({ scale: Number.POSITIVE_INFINITY })),
    nstr('ten thousand tensors', 'wrong-shape', sealed({ tensors: 10_000, named })),
    nstr('values missing', 'truncated', sealed({ selected: count + 1 })),
  ];
}

/** All of them. */
export const hostilePayloads = (): HostilePayload[] => [
  ...compact().map((payload) => ({ ...payload, name: `compact: ${payload.name}` })),
  ...reference().map((payload) => ({ ...payload, name: `nstr: ${payload.name}` })),
];
