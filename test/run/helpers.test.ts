/** E-12: which slice of the width helpers train when. */
import { describe, expect, it } from 'vitest';
import { helperSlice, rotationsOf, trainedSlices } from '../../src/run/helpers.ts';

const run = { count: 3, rotation: 4 };

/** The columns of each feed-forward layer that a slice stands for. */
function helperColumns(
  { count, ffn }: { readonly count: number; readonly ffn: number },
  tier: number,
  { rotation }: { readonly rotation: number },
): readonly number[] {
  const width = ffn / 2 ** count;
  const slice = helperSlice({ count, rotation: 1 }, tier, rotation);
  return Array.from({ length: width }, (_, i) => slice * width + i);
}

describe('E-12: the slices of helpers', () => {
  it.each([1, 2, 3])('of tier %d are each trained once in every cycle of rotations', (tier) => {
    const turns = rotationsOf(run, tier);
    expect(turns).toBe(8 - 2 ** (3 - tier));
    for (const cycle of [0, 1, 5]) {
      const slices = Array.from({ length: turns }, (_, i) =>
        helperSlice(run, tier, 4 * (cycle * turns + i)),
      );
      expect([...slices].sort()).toEqual(Array.from({ length: turns }, (_, i) => 8 - turns + i));
    }
  });

  it('stay for a rotation, and are the same on every machine', () => {
    const slices = Array.from({ length: 48 }, (_, round) => helperSlice(run, 2, round));
    for (let round = 0; round < 48; round++) {
      expect(slices[round]).toBe(slices[round - (round % 4)]);
    }
    expect(slices.filter((_, round) => round % 4 === 0)).toEqual([
      6, 4, 7, 5, 2, 3, 5, 7, 6, 4, 3, 2,
    ]);
  });

  it.each([1, 2])(
    'as columns of tier %d are all in the suffix, none twice, and cover it',
    (tier) => {
      const ffn = 64;
      const seen = new Set<number>();
      for (let rotation = 0; rotation < rotationsOf({ count: 2 }, tier); rotation++) {
        const columns = helperColumns({ count: 2, ffn }, tier, { rotation });
        expect(new Set(columns).size).toBe(16);
        expect(Math.min(...columns)).toBeGreaterThanOrEqual(ffn / 2 ** tier);
        expect(helperColumns({ count: 2, ffn }, tier, { rotation })).toEqual(columns);
        for (const column of columns) seen.add(column);
      }
      expect(seen.size).toBe(ffn - ffn / 2 ** tier);
    },
  );

  it('are beside the own slices of who holds all; who holds its tier trains that alone', () => {
    expect(trainedSlices(run, { tier: 2, sliceCount: 2, round: 0 })).toEqual([0, 1]);
    const helped = trainedSlices(run, { tier: 2, sliceCount: 8, round: 9 });
    expect(helped).toEqual([0, 1, helperSlice(run, 2, 9)]);
    expect(trainedSlices(run, { tier: 0, sliceCount: 8, round: 9 })).toHaveLength(8);
    for (const [tier, held] of [
      [2, 3],
      [4, 1],
      [0, 4],
    ] as const) {
      expect(trainedSlices(run, { tier, sliceCount: held, round: 0 })).toBeUndefined();
    }
  });
});
