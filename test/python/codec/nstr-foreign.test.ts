/** Payloads of unknown models: their layout is accepted only if it is consistent. */
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { readNstr } from 'nostrain/python/parts';
import { describe, expect, test } from 'vitest';
import {
  type Block,
  blockBytes,
  containerOf,
  payloadOf,
  validBlock,
} from '../support/nstr-blocks.ts';

const limits = { maxContainerBytes: 1 << 16, maxValues: 1000 };
const read = (change: Partial<Block>) =>
  readNstr(payloadOf({ ...validBlock(), ...change }), limits);
const codeOf = (change: Partial<Block>) => {
  const result = read(change);
  return result.ok ? 'ok' : result.issue.code;
};

test('names and shapes come from the payload', () => {
  const named = [
    { name: 'größe', shape: [] },
    { name: 'none', shape: [0, 7] },
    { name: 'a', shape: [2, 2] },
  ];
  const result = read({ named, tensors: 3 });
  expect(
    result.ok && result.value.layout.slots.map(({ name, shape }) => ({ name, shape })),
  ).toEqual(named);
});

describe('one lie at a time', () => {
  test.each<[string, Partial<Block>, string]>([
    ['a model larger than is read', { total: 1001 }, 'too-large'],
    ['2^32 - 1 values', { total: 0xffffffff, selected: 0xffffffff }, 'too-large'],
    ['a total that is not that of the tensors', { total: 6 }, 'wrong-shape'],
    ['no tensors', { named: [], tensors: 0, total: 0, indices: [], quantized: [] }, 'wrong-shape'],
    ['more tensors than are there', { tensors: 60_000 }, 'truncated'],
    ['a tensor without a name', { named: [{ name: '', shape: [5] }], tensors: 1 }, 'wrong-shape'],
    [
      'two tensors of one name',
      { named: [validBlock().named[0]!, { name: 'a', shape: [3] }] },
      'wrong-shape',
    ],
    [
      'a shape beyond all numbers',
      { named: [{ name: 'a', shape: Array(60).fill(0xffffffff) }], tensors: 1 },
      'wrong-shape',
    ],
    [
      'a shape of nothing beyond all numbers',
      { named: [{ name: 'a', shape: [...Array(60).fill(0xffffffff), 0] }], tensors: 1 },
      'wrong-shape',
    ],
    ['another magic', { magic: 'NSTX' }, 'bad-block'],
    ['a byte after the end', { trailing: Buffer.of(0) }, 'trailing-bytes'],
    ['indices that descend', { indices: [3, 1] }, 'bad-index'],
  ])('%s', (_, change, code) => {
    expect(codeOf(change)).toBe(code);
  });

  test('a name that is no text', () => {
    const bytes = blockBytes(validBlock());
    bytes[33] = 0xff;
    const result = readNstr(containerOf(deflateSync(bytes)), limits);
    expect(result).toMatchObject({ ok: false, issue: { code: 'truncated' } });
  });
});

test('never throws on any bytes', () => {
  const block = blockBytes(validBlock());
  fc.assert(
    fc.property(fc.nat(block.length - 1), fc.nat(255), fc.nat(block.length), (at, byte, length) => {
      const bytes = Buffer.from(block.subarray(0, length));
      if (at < length) bytes[at] = byte;
      const result = readNstr(containerOf(deflateSync(bytes)), limits);
      if (result.ok) expect(result.value.layout.size).toBeLessThanOrEqual(limits.maxValues);
    }),
    { numRuns: 1000 },
  );
});
