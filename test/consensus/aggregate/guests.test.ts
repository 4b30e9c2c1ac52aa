import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { aggregateBounded, type UnboundedRow } from '../../../src/consensus/aggregate/bounded.ts';
import { nextSizes } from '../../../src/consensus/aggregate/norm-bound.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../../src/tensor/partial-vector.ts';
import { drawsOf } from '../../support/rule-rows.ts';
import { dense } from '../../support/vectors.ts';

const SIZE = 40;
const keyOf = (name: string) => createHash('sha256').update(name).digest('hex');
const row = (name: string, delta: PartialVector, isGuest = false, weight = 1): UnboundedRow => ({
  ...{ worker: keyOf(name), id: keyOf(`event ${name}`), late: false, weight, isGuest, delta },
});
const play = (rows: readonly UnboundedRow[], history: readonly number[] = []) =>
  aggregateBounded(rows, {
    ...{ size: rows[0]!.delta.size, normalize: 'workers', normBound: 1.5, history, parameters: 1 },
  });
const vector = (draw: () => number, size: number) =>
  Float64Array.from({ length: SIZE }, () => (size * (draw() - 32_768)) / 32_768);
const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, each, i) => sum + each * b[i]!, 0);
const norm = (a: Float64Array) => Math.sqrt(dot(a, a));

/** Four founders that mostly agree. */
function foundersOf(seed: number): readonly UnboundedRow[] {
  const draw = drawsOf(seed);
  const shared = vector(draw, 1);
  return [0, 1, 2, 3].map((i) => {
    const noise = vector(draw, 0.5);
    return row(`founder ${i}`, dense(shared.map((value, k) => value + noise[k]!)));
  });
}

describe('attack: any number of fresh keys', () => {
  it('neither turns the step of the founders nor moves the model further than twice that step', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const founders = foundersOf(seed);
      const { aggregate: alone, typical } = play(founders);
      const draw = drawsOf(1000 + seed);
      const sizes = [1e-3, 0.5, 1, 1.5, 1e6, 1e38];
      const against = (factor: number) => alone.mean.map((value) => -factor * value);
      const guests = Array.from({ length: 1 + (draw() % 40) }, (_, i) => {
        const size = sizes[draw() % sizes.length]!;
        const values = i % 3 === 0 ? against(size) : vector(draw, size);
        return row(`guest ${i}`, dense(values), true, 1 + (draw() % 1000));
      });
      const all = play([...founders, ...guests]);
      expect(norm(all.aggregate.mean)).toBeLessThan(2 * norm(alone.mean));
      const along = dot(all.aggregate.mean, alone.mean) / dot(alone.mean, alone.mean);
      expect(along).toBeGreaterThanOrEqual(0.8 - 1e-9);
      expect(all.typical).toBe(typical);
    }
  });

  it('without a founder in the round, they move it no further than an earlier step', () => {
    const guests = Array.from({ length: 9 }, (_, i) => row(`${i}`, dense([1e38, 1e38]), true));
    const { aggregate, typical } = play(guests, [1, 1, 1, 1, 1, 1, 1, 1]);
    expect(Math.hypot(...aggregate.mean) / Math.SQRT2).toBeLessThanOrEqual(1 + 1e-9);
    expect(typical).toBe(0);
    expect(nextSizes([1, 2], typical)).toEqual([1, 2]);
  });
});

describe('an honest guest', () => {
  it('counts as much as a founder next to four of them, and a tenth of that with nine others', () => {
    const founders = [1, 2, 3, 4].map((i) => row(`founder ${i}`, dense([1, 1])));
    const guests = Array.from({ length: 10 }, (_, i) => row(`guest ${i}`, dense([1, 1.25]), true));
    const stepOf = (count: number) =>
      play([...founders, ...guests.slice(0, count)]).aggregate.mean[1]!;
    expect(stepOf(1)).toBeCloseTo((4 + 1.25) / 5, 12);
    expect(stepOf(10)).toBeCloseTo((4 + 1.25) / 5, 12);
  });

  it('keeps what did not count: its contribution is unused if it points the other way', () => {
    const founders = [row('a', dense([1, 1])), row('b', dense([1, 1])), row('c', dense([1, 1]))];
    const [same, other] = [row('d', dense([1, 0]), true), row('e', dense([-1, 0.5]), true)];
    const { aggregate } = play([...founders, same, other]);
    expect([...aggregate.unused]).toEqual([other.id]);
  });

  it('moves no chunk that no founder sent', () => {
    const size = 2 * CHUNK_LENGTH;
    const both = dense(new Float64Array(size).fill(1));
    const first = { ...both, chunks: both.chunks.slice(0, 1) };
    const { aggregate } = play([row('a', first), row('b', first), row('c', both, true)]);
    expect([...aggregate.moved]).toEqual([0]);
    expect(aggregate.mean.slice(CHUNK_LENGTH).every((value) => value === 0)).toBe(true);
    expect(aggregate.mean[0]).toBe(1);
  });
});
