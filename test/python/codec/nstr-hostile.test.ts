import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { decodeNstr, inflateAtMost } from 'nostrain/python/parts';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import {
  type Block,
  blockBytes,
  containerOf,
  payloadOf,
  validBlock,
} from '../support/nstr-blocks.ts';

const layout = createLayout([
  { name: 'a', shape: [2] },
  { name: 'b', shape: [3] },
]);
const limits = { layout, maxContainerBytes: 1 << 20 };
const codeOf = (payload: string) => {
  const read = decodeNstr(payload, limits);
  return read.ok ? 'ok' : read.issue.code;
};
const withBlock = (change: Partial<Block>) => codeOf(payloadOf({ ...validBlock(), ...change }));

test('the untouched block is fine', () => {
  expect(decodeNstr(payloadOf(validBlock()), limits)).toMatchObject({
    ok: true,
    value: {
      delta: {
        size: 5,
        indices: Uint32Array.of(1, 3),
        values: Float64Array.of(63.5, -25),
      },
    },
  });
});

describe('one lie at a time', () => {
  const manyTensors = Array.from({ length: 10_000 }, (_, i) => ({ name: `t${i}`, shape: [1] }));
  const cases: [string, Partial<Block>, string][] = [
    ['another magic', { magic: 'NSTX' }, 'bad-block'],
    ['another version', { version: 2 }, 'bad-block'],
    ['2^32 - 1 values', { total: 0xffffffff }, 'wrong-shape'],
    ['2^32 - 1 values sent', { selected: 0xffffffff }, 'wrong-shape'],
    ['2^32 - 1 of 2^32 - 1', { total: 0xffffffff, selected: 0xffffffff }, 'wrong-shape'],
    ['none sent', { indices: [], quantized: [] }, 'wrong-shape'],
    ['ten thousand tensors', { tensors: 10_000, named: manyTensors }, 'wrong-shape'],
    ['one tensor fewer', { tensors: 1 }, 'wrong-shape'],
    ['another name', { named: [{ name: 'A', shape: [2] }, validBlock().named[1]!] }, 'wrong-shape'],
    [
      'another shape',
      { named: [validBlock().named[0]!, { name: 'b', shape: [3, 1] }] },
      'wrong-shape',
    ],
    ['a repeated index', { indices: [3, 3] }, 'bad-index'],
    ['descending indices', { indices: [3, 1] }, 'bad-index'],
    ['an index out of range', { indices: [1, 5] }, 'bad-index'],
    ['the largest index', { indices: [1, 0xffffffff] }, 'bad-index'],
    ['-128', { quantized: [1, -128] }, 'bad-value'],
    ['a scale of NaN', { scale: Number.NaN }, 'not-finite'],
    ['an infinite scale', { scale: Number.POSITIVE_INFINITY }, 'not-finite'],
    ['a scale of which 127 are too many', { scale: 1e307 }, 'not-finite'],
    ['a scale of 0', { scale: 0 }, 'bad-scale'],
    ['a scale of -0', { scale: -0 }, 'bad-scale'],
    ['a negative scale', { scale: -1 }, 'bad-scale'],
    ['a ratio of 0', { ratio: 0 }, 'bad-ratio'],
    ['a ratio above 1', { ratio: 1.0000001 }, 'bad-ratio'],
    ['a ratio of NaN', { ratio: Number.NaN }, 'bad-ratio'],
    ['fewer values than announced', { selected: 3 }, 'truncated'],
    ['more values than announced', { selected: 1 }, 'trailing-bytes'],
    ['one byte more', { trailing: Buffer.of(0) }, 'trailing-bytes'],
  ];
  test.each(cases)('%s', (_, change, code) => {
    expect(withBlock(change)).toBe(code);
  });
});

describe('containers', () => {
  const stream = deflateSync(blockBytes(validBlock()));
  const cases: [string, string, string][] = [
    ['nothing', '', 'truncated'],
    ['zstd', containerOf(stream, 2), 'unsupported-codec'],
    ['an unknown codec', containerOf(stream, 7), 'unsupported-codec'],
    ['gzip', containerOf(gzipSync(blockBytes(validBlock()))), 'bad-deflate'],
    ['bare deflate', containerOf(deflateRawSync(blockBytes(validBlock()))), 'bad-deflate'],
    ['a byte behind the stream', containerOf(Buffer.concat([stream, Buffer.of(0)])), 'bad-deflate'],
    ['two streams', containerOf(Buffer.concat([stream, stream])), 'bad-deflate'],
    ['a broken checksum', containerOf(flip(stream, stream.length - 1)), 'bad-deflate'],
    [
      'line breaks',
      `${containerOf(stream).slice(0, 40)}\n${containerOf(stream).slice(40)}`,
      'bad-base64',
    ],
    ['too many bytes', 'A'.repeat(4 * (1 << 20)), 'too-large'],
  ];
  test.each(cases)('%s', (_, payload, code) => {
    expect(codeOf(payload)).toBe(code);
  });

  test('every truncation and every flipped byte is refused or harmless', () => {
    const container = Buffer.from(containerOf(stream), 'base64');
    for (let length = 0; length < container.length; length++) {
      expect(codeOf(container.subarray(0, length).toString('base64'))).not.toBe('ok');
      const block = blockBytes(validBlock()).subarray(0, length);
      expect(codeOf(containerOf(deflateSync(block)))).not.toBe('ok');
      // the bits that pad the last byte of a deflate stream mean nothing; all others are covered by the checksum
      const flipped = decodeNstr(flip(container, length).toString('base64'), limits);
      if (flipped.ok) expect(flipped).toEqual(decodeNstr(containerOf(stream), limits));
    }
  });
});

const flip = (bytes: Buffer, at: number): Buffer =>
  Buffer.from(bytes.map((byte, i) => (i === at ? byte ^ 0x10 : byte)));

describe('bombs', () => {
  const zeros = deflateSync(Buffer.alloc(64 << 20), { level: 9 });

  test('inflating stops one byte above the limit', () => {
    for (const limit of [1, 31, 100, 65_536]) {
      const { bytes, end, inflatedBytes } = inflateAtMost(zeros, limit);
      expect({ end, inflatedBytes, length: bytes.length }).toEqual({
        end: 'more',
        inflatedBytes: limit + 1,
        length: limit,
      });
      expect(bytes.buffer.byteLength).toBe(limit + 1);
    }
  });

  test('megabytes behind a good header are never inflated', () => {
    const block = { ...validBlock(), trailing: Buffer.alloc(8 << 20) };
    expect(codeOf(payloadOf(block))).toBe('trailing-bytes');
    expect(codeOf(containerOf(zeros))).toBe('bad-block');
  });

  test('output of exactly the limit is whole', () => {
    const { end, bytes } = inflateAtMost(deflateSync(Buffer.alloc(100)), 100);
    expect(end).toBe('whole');
    expect(bytes).toHaveLength(100);
  });

  test('agrees with zlib on any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), fc.nat(9), (bytes, level) => {
        const { end, bytes: read } = inflateAtMost(deflateSync(bytes, { level }), bytes.length);
        expect(end).toBe('whole');
        expect(read).toEqual(bytes);
      }),
    );
  });
});

test('no text makes the decoder throw', () => {
  const anyBytes = fc.uint8Array({ maxLength: 80 });
  fc.assert(
    fc.property(anyBytes, fc.boolean(), (bytes, wrapped) => {
      const stream = wrapped ? deflateSync(bytes) : bytes;
      expect(decodeNstr(containerOf(stream), limits).ok).toBe(false);
      expect(decodeNstr(Buffer.from(bytes).toString('latin1'), limits).ok).toBe(false);
    }),
  );
});
