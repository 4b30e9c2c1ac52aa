/** The randomized Hadamard rotation: it inverts, and rounding errors after it are noise. */

import { fromHex } from 'nostrain/base';
import { encodePayload, type PayloadScope } from 'nostrain/network';
import { addPartial, CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { inverseRotate, rotate, rotatedLength } from '../../../src/network/codec/rotation.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { readVectors } from '../../support/vectors.ts';

interface Vector {
  readonly name: string;
  readonly run: string;
  readonly sender: string;
  readonly round: number;
  readonly chunk: number;
  readonly turned: readonly number[];
  readonly values: readonly number[];
}
const { vectors } = readVectors<{ vectors: readonly Vector[] }>('rotated.json');

const bySender = (size: number, sender: number): PayloadScope => ({
  ...scopeOf(size),
  sender: new Uint8Array(32).fill(sender),
});
const product = (a: Float64Array, b: Float64Array) =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);

/** The delta that receivers decode from a payload of `maxBytes` bytes. */
function read(delta: Float64Array, maxBytes: number, sender = 9): Float64Array {
  const scope = bySender(delta.length, sender);
  const { sent } = encodePayload(delta, { codec: 'rotated', kept: 0, maxBytes }, scope);
  const sum = new Float64Array(delta.length);
  addPartial(sum, sent, 1);
  return sum;
}

describe('a rotated chunk', () => {
  test.each(vectors)('by another program: $name', (vector) => {
    const { round, chunk, turned, values } = vector;
    const place = { run: fromHex(vector.run)!, sender: fromHex(vector.sender)!, round };
    const buffer = Float64Array.from(turned);
    inverseRotate(buffer, chunk, { ...scopeOf(1), ...place });
    // a zero has no sign
    expect(Array.from(buffer.subarray(0, values.length), (value) => value + 0)).toEqual(
      values.map((value) => value + 0),
    );
  });

  test('has its values back, to rounding, and is as long as they are', () => {
    for (const n of [1, 2, 3, 61, 128, 700, CHUNK_LENGTH]) {
      const values = drawnDelta(n);
      const buffer = new Float64Array(rotatedLength(n));
      buffer.set(values);
      rotate(buffer, 3, scopeOf(n));
      // of an odd power of two, half a power more lies in the length
      const longer = rotatedLength(n) === 2 ** (2 * Math.floor(Math.log2(rotatedLength(n)) / 2));
      const grown = product(buffer, buffer) / product(values, values);
      expect(grown).toBeCloseTo(longer ? 1 : 0.5, 12);
      inverseRotate(buffer, 3, scopeOf(n));
      values.forEach((value, i) => {
        expect(buffer[i]).toBeCloseTo(value, 12);
      });
    }
  });

  test('is another one for another chunk, round, run and sender', () => {
    const scope = scopeOf(CHUNK_LENGTH);
    const rotatedBy = (chunk: number, other: Partial<PayloadScope>) => {
      const buffer = new Float64Array(CHUNK_LENGTH).fill(1);
      rotate(buffer, chunk, { ...scope, ...other });
      return buffer.join();
    };
    const all = [
      ...[rotatedBy(0, {}), rotatedBy(1, {}), rotatedBy(0, { round: 6 })],
      ...[rotatedBy(0, { run: new Uint8Array(32) }), rotatedBy(0, { sender: new Uint8Array(32) })],
    ];
    expect(new Set(all).size).toBe(all.length);
  });
});

describe('half a bit for each value', () => {
  // in each row a few values are a hundred times as large as the others
  const delta = drawnDelta(8 * CHUNK_LENGTH).map((value, i) =>
    i % 50 === 0 ? value : value / 100,
  );
  const maxBytes = 100 + delta.length / 16;

  test('has the length of the delta along it, though nearly all numbers are 0', () => {
    expect(product(read(delta, maxBytes), delta) / product(delta, delta)).toBeCloseTo(1, 1);
  });

  test('says as much of small values as of large ones', () => {
    const sum = new Float64Array(delta.length);
    const senders = 64;
    for (let sender = 0; sender < senders; sender++)
      read(delta, maxBytes, sender).forEach((value, i) => {
        sum[i] = sum[i]! + value / senders;
      });
    const small = delta.map((value, i) => (i % 50 === 0 ? 0 : value));
    const large = delta.map((value, i) => (i % 50 === 0 ? value : 0));
    expect(product(sum, large) / product(large, large)).toBeCloseTo(1, 1);
    // a code that rounds small values away says nothing of them, however often
    expect(product(sum, small) / product(small, small)).toBeCloseTo(1, 1);
  });

  test('of several senders has less noise than of one: what they lose has nothing in common', () => {
    const noise = (senders: number) => {
      const off = delta.map((value) => -value);
      for (let sender = 0; sender < senders; sender++)
        read(delta, maxBytes, sender).forEach((value, i) => {
          off[i] = off[i]! + value / senders;
        });
      return product(off, off) / product(delta, delta);
    };
    const one = noise(1);
    expect(noise(4) / one).toBeLessThan(0.3);
    expect(noise(4) / one).toBeGreaterThan(0.2);
  });

  test('grows to four times its numbers at most: with next to no bytes noise stays bounded', () => {
    const few = read(delta, 84 + 8 + 4 + 40);
    expect(product(few, few)).toBeLessThan(16 * product(delta, delta));
  });
});
