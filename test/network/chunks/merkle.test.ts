import fc from 'fast-check';
import { merklePath, toHex } from 'nostrain/base';
import { chunkCount, chunkTree, splitChunks, verifyChunk } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import {
  type Chunk,
  chunkLength,
  isChunkIndex,
  isPayload,
} from '../../../src/network/chunks/payload.ts';
import vectors from '../../vectors/chunks.json' with { type: 'json' };

const SIZE = 45_056;
const payloadOf = (bytes: number) =>
  Uint8Array.from({ length: bytes }, (_, i) => 167 * i + Math.floor(i / 256));

function chunksOf(payload: Uint8Array): readonly Chunk[] {
  const tree = chunkTree(payload);
  return splitChunks(payload).map((data, index) => ({
    root: tree.root,
    bytes: payload.length,
    index,
    data,
    path: merklePath(tree, index),
  }));
}

const five = chunksOf(payloadOf(4 * SIZE + 9));
const verdict = (chunk: Chunk) => {
  const verified = verifyChunk(chunk);
  return verified.ok ? 'verified' : verified.issue.code;
};

describe('splitting', () => {
  test('length alone says how many chunks there are and how long they are', () => {
    expect([1, SIZE, SIZE + 1, 3 * SIZE].map(chunkCount)).toEqual([1, 1, 2, 3]);
    expect([0, 1, 2].map((index) => chunkLength(index, 2 * SIZE + 5))).toEqual([SIZE, SIZE, 5]);
    expect(splitChunks(payloadOf(SIZE + 1)).map((chunk) => chunk.length)).toEqual([SIZE, 1]);
    expect(chunkCount(65_536 * SIZE)).toBe(65_536);
  });

  test('there is no other place', () => {
    for (const bytes of [0, -1, 0.5, Number.NaN, 65_536 * SIZE + 1]) {
      expect(isChunkIndex(0, bytes)).toBe(false);
      expect(() => chunkCount(bytes)).toThrow(RangeError);
    }
    for (const index of [-1, 1, 0.5]) expect(() => chunkLength(index, SIZE)).toThrow(RangeError);
  });
});

describe('one chunk alone', () => {
  test('every chunk of every shape proves itself', () => {
    for (let count = 1; count <= 17; count++) {
      const chunks = chunksOf(payloadOf((count - 1) * SIZE + 1));
      expect(chunks.map(verdict)).toEqual(Array(count).fill('verified'));
    }
  });

  test('a flipped bit anywhere is found', () => {
    const flipped = (bytes: Uint8Array, at: number) =>
      bytes.map((byte, i) => (i === at ? byte ^ 1 : byte));
    fc.assert(
      fc.property(fc.nat(4), fc.nat(), fc.nat(31), (which, at, bit) => {
        const chunk = five[which]!;
        const data = flipped(chunk.data, at % chunk.data.length);
        expect(verdict({ ...chunk, data })).toBe('wrong-root');
        const path = chunk.path.map((hash, i) =>
          i === at % chunk.path.length ? flipped(hash, bit) : hash,
        );
        expect(verdict({ ...chunk, path })).toBe('wrong-root');
      }),
      { numRuns: 20 },
    );
  });

  const first = five[0]!;
  test.each<[string, Partial<Chunk>, string]>([
    ['another index', { index: 1 }, 'wrong-root'],
    ['no such index', { index: 5 }, 'wrong-index'],
    ['an index that is no index', { index: -1 }, 'wrong-index'],
    ['no length at all', { bytes: 0 }, 'wrong-index'],
    ['another length, same count', { bytes: 4 * SIZE + 10 }, 'wrong-root'],
    ['another count, same shape of path', { bytes: 6 * SIZE }, 'wrong-root'],
    ['another root', { root: 'ab'.repeat(32) }, 'wrong-root'],
    ['a shorter chunk', { data: first.data.subarray(1) }, 'wrong-length'],
    ['a shorter path', { path: first.path.slice(1) }, 'wrong-path'],
    ['a longer path', { path: [...first.path, first.path[0]!] }, 'wrong-path'],
    ['a path in another order', { path: first.path.toReversed() }, 'wrong-root'],
    ['a hash of another length', { path: [...first.path.slice(1), payloadOf(31)] }, 'wrong-path'],
  ])('%s', (_, change, expected) => {
    expect(verdict({ ...first, ...change })).toBe(expected);
  });

  test('a node cannot pass for a leaf', () => {
    const chunks = chunksOf(payloadOf(2 * SIZE));
    const tree = chunkTree(payloadOf(2 * SIZE));
    const inner = Buffer.concat(tree.levels[0]!);
    expect(inner.length).toBe(64);
    expect(verdict({ ...chunks[0]!, bytes: 64, data: inner, path: [] })).toBe('wrong-root');
  });
});

test('repeating the last chunk makes another root: no second preimage', () => {
  const three = payloadOf(3 * SIZE);
  const chunks = splitChunks(three);
  const four = Buffer.concat([three, chunks[2]!]);
  const [tree, repeated] = [chunkTree(three), chunkTree(four)];
  expect(repeated.levels.at(-1)).not.toEqual(tree.levels.at(-1));
  expect(repeated.root).not.toBe(tree.root);
  expect(isPayload(three, tree)).toBe(true);
  expect(isPayload(four, tree)).toBe(false);
  const last = { root: tree.root, bytes: 4 * SIZE, index: 3, data: chunks[2]! };
  const hashes = [...tree.levels.flat(), ...repeated.levels.flat()];
  for (const low of hashes) {
    for (const high of hashes) expect(verdict({ ...last, path: [low, high] })).toBe('wrong-root');
  }
});

describe('vectors', () => {
  test.each(vectors.trees)('$bytes bytes', ({ bytes, count, root, chunks }) => {
    const tree = chunkTree(payloadOf(bytes));
    expect(tree).toMatchObject({ bytes, count, root });
    for (const { index, leaf, path } of chunks) {
      expect(toHex(tree.levels[0]![index]!)).toBe(leaf);
      expect(merklePath(tree, index).map(toHex)).toEqual(path);
    }
    expect(() => merklePath(tree, count)).toThrow(RangeError);
  });
});
