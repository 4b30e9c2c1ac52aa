/** The randomized Hadamard rotation and its inverse. */
import { fromHex } from 'nostrain/base';
import type { PayloadScope } from 'nostrain/network';
import { CHUNK_LENGTH } from 'nostrain/tensor';
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

const product = (a: Float64Array, b: Float64Array) =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);

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
