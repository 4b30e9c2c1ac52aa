import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inOrder } from '../../../src/consensus/aggregate/mean.ts';
import { contribution } from '../../support/contributions.ts';
import { meanDelta } from '../../support/mean.ts';

const uncapped = {
  weights: 'examples',
  cap: Number.MAX_SAFE_INTEGER,
  normalize: 'workers',
} as const;

describe('the weighted mean', () => {
  it('sums the rows in one order: late ones last, then by worker, then by event', () => {
    const expected = [
      { late: false, worker: 'a', id: '2' },
      { late: false, worker: 'b', id: '1' },
      { late: false, worker: 'b', id: '3' },
      { late: true, worker: 'a', id: '0' },
      { late: true, worker: 'c', id: '0' },
    ];
    fc.assert(
      fc.property(fc.shuffledSubarray(expected, { minLength: expected.length }), (rows) => {
        expect(inOrder(rows)).toEqual(expected);
      }),
    );
  });

  it('N-16: weighs by examples exactly, absent counts as 1', () => {
    const cohort = [
      contribution('a', [1, 2], { examples: 3 }),
      contribution('b', [5, -2], { examples: 1 }),
      contribution('c', [9, 8]),
    ];
    const { mean } = meanDelta(cohort, { size: 2, ...uncapped });
    expect([...mean]).toEqual([17 / 5, 12 / 5]);
  });

  it('N-16: caps a worker that claims 10^9 examples', () => {
    const honest = contribution('a', [1], { examples: 100 });
    const liar = contribution('b', [-1], { examples: 1e9 });
    expect(meanDelta([honest, liar], { size: 1, ...uncapped, cap: 100 }).mean[0]).toBe(0);
  });

  it('ignores counts when every worker weighs the same', () => {
    const cohort = [contribution('a', [4], { examples: 7 }), contribution('b', [8])];
    expect(meanDelta(cohort, { size: 1, ...uncapped, weights: 'equal' }).mean[0]).toBe(6);
  });

  it('gives the same bits in any order of arrival', () => {
    const value = fc.double({ noNaN: true, min: -1e3, max: 1e3 });
    const deltas = fc.array(fc.tuple(value, value, value), { minLength: 2, maxLength: 7 });
    fc.assert(
      fc.property(deltas, fc.infiniteStream(fc.nat()), (rows, picks) => {
        const cohort = rows.map((row, i) => contribution(`worker-${i}`, row, { examples: i + 1 }));
        const shuffled = [...cohort].sort(() => ((picks.next().value as number) % 2) - 0.5);
        const options = { size: 3, ...uncapped };
        expect(meanDelta(shuffled, options)).toEqual(meanDelta(cohort, options));
      }),
    );
  });

  it('refuses an empty cohort and another size', () => {
    expect(() => meanDelta([], { size: 1, ...uncapped })).toThrow(RangeError);
    expect(() => meanDelta([contribution('a', [1])], { size: 2, ...uncapped })).toThrow(RangeError);
  });
});
