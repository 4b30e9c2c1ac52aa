import fc from 'fast-check';
import { sha256Hex } from 'nostrain/base';
import { encodeGroup, multiply, restoreGroup } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { addMultiple, inverse, shardBytes } from '../../../src/network/chunks/reed-solomon.ts';
import vectors from '../../vectors/chunks.json' with { type: 'json' };

const payloadOf = (bytes: number) =>
  Uint8Array.from({ length: bytes }, (_, i) => 167 * i + Math.floor(i / 256));

describe('the field', () => {
  const element = fc.integer({ min: 0, max: 255 });

  test('multiplication is that of polynomials modulo 0x11d', () => {
    const slowly = (a: number, b: number) => {
      let product = 0;
      for (let bit = 0; bit < 8; bit++) if ((b >> bit) & 1) product ^= a << bit;
      for (let bit = 14; bit >= 8; bit--) if ((product >> bit) & 1) product ^= 0x11d << (bit - 8);
      return product;
    };
    fc.assert(fc.property(element, element, (a, b) => multiply(a, b) === slowly(a, b)));
  });

  test('every element but 0 has an inverse', () => {
    for (let a = 1; a < 256; a++) expect(multiply(a, inverse(a))).toBe(1);
    expect(() => inverse(0)).toThrow(RangeError);
  });

  test('adding a multiple twice changes nothing, and lengths must agree', () => {
    const target = payloadOf(50);
    addMultiple(target, payloadOf(50).reverse(), 77);
    expect(target).not.toEqual(payloadOf(50));
    addMultiple(target, payloadOf(50).reverse(), 77);
    expect(target).toEqual(payloadOf(50));
    expect(() => addMultiple(target, new Uint8Array(49), 1)).toThrow(RangeError);
  });
});

describe('erasure-coded groups', () => {
  test('any k shards restore the payload; fewer say how many there are', () => {
    for (let data = 1; data <= 5; data++) {
      for (let parity = 0; parity <= 4; parity++) {
        const erasure = { data, parity };
        const payload = payloadOf(3 * data + 1);
        const shards = encodeGroup(payload, erasure);
        for (let pattern = 0; pattern < 1 << (data + parity); pattern++) {
          const kept = shards.map((shard, i) => ((pattern >> i) & 1 ? shard : undefined));
          const have = kept.filter((shard) => shard !== undefined).length;
          expect(restoreGroup(kept, erasure, payload.length)).toEqual(
            have < data ? { ok: false, have, need: data } : { ok: true, bytes: payload },
          );
        }
      }
    }
  });

  test('larger ones restore too', () => {
    const cases = fc
      .record({ data: fc.integer({ min: 1, max: 40 }), parity: fc.integer({ min: 1, max: 40 }) })
      .chain((erasure) =>
        fc.record({
          erasure: fc.constant(erasure),
          payload: fc.uint8Array({ minLength: 1, maxLength: 300 }),
          lost: fc.uniqueArray(fc.nat(erasure.data + erasure.parity - 1), {
            maxLength: erasure.parity,
          }),
        }),
      );
    fc.assert(
      fc.property(cases, ({ erasure, payload, lost }) => {
        const kept = encodeGroup(payload, erasure).map((shard, i) =>
          lost.includes(i) ? undefined : shard,
        );
        expect(restoreGroup(kept, erasure, payload.length)).toEqual({ ok: true, bytes: payload });
      }),
      { numRuns: 60 },
    );
  });

  test('the first shards are the payload itself', () => {
    const shards = encodeGroup(payloadOf(10), { data: 3, parity: 1 });
    expect(Buffer.concat(shards.slice(0, 3)).subarray(0, 10)).toEqual(Buffer.from(payloadOf(10)));
    expect(shards.map((shard) => shard.length)).toEqual([4, 4, 4, 4]);
  });

  test('256 shards are the most', () => {
    expect(shardBytes({ data: 128, parity: 128 }, 1)).toBe(1);
    expect(() => shardBytes({ data: 129, parity: 128 }, 1)).toThrow(RangeError);
    expect(() => shardBytes({ data: 0, parity: 1 }, 1)).toThrow(RangeError);
    expect(() => shardBytes({ data: 1, parity: 0.5 }, 1)).toThrow(RangeError);
    expect(() => encodeGroup(new Uint8Array(0), { data: 1, parity: 1 })).toThrow(RangeError);
  });

  test('wrong numbers or lengths of shards are a bug, not wrong bytes', () => {
    const erasure = { data: 2, parity: 1 };
    const shards = encodeGroup(payloadOf(9), erasure);
    expect(() => restoreGroup(shards.slice(1), erasure, 9)).toThrow(RangeError);
    expect(() => restoreGroup(shards, erasure, 11)).toThrow(RangeError);
  });

  test.each(vectors.stripes)('of $bytes bytes, $data + $parity', ({ bytes, sha256, ...vector }) => {
    const erasure = { data: vector.data, parity: vector.parity };
    const shards = encodeGroup(payloadOf(bytes), erasure).map((shard) => Buffer.from(shard));
    expect(sha256Hex(Buffer.concat(shards))).toBe(sha256);
    if (vector.shards === undefined) return;
    expect(shards.map((shard) => shard.toString('hex'))).toEqual(vector.shards);
  });
});
