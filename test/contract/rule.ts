/** What every aggregation rule promises; each is held to it by name. */

import { type Aggregation, leastRows, ruleForms, usualAggregation } from 'nostrain/run';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { type AggregateOptions, aggregate } from '../../src/consensus/aggregate/rules.ts';
import { drawsOf, ruleRow, rulesVectors } from '../support/rule-rows.ts';

const same = (a: Float64Array, b: Float64Array) =>
  Buffer.compare(Buffer.from(a.buffer), Buffer.from(b.buffer)) === 0;

/** Which vectors hold for a rule, and in which precision. */
export interface Reference {
  readonly vectors?: string;
  readonly precision?: 'float64' | 'float32';
}

/** Runs the whole contract for one rule and what is in front of it. */
export function testRule(
  choice: Omit<Aggregation, 'hostile' | 'leastRatePermille'>,
  { vectors, precision = 'float64' }: Reference,
): void {
  const of = (hostile: number): Aggregation => ({ ...usualAggregation, ...choice, hostile });
  const name = choice.before === 'nothing' ? choice.rule : `${choice.before} + ${choice.rule}`;

  const isRobust = ruleForms[choice.rule] !== 'mean';

  describe(name, () => {
    const drawn = (count: number, size: number) => {
      const next = drawsOf(count);
      return Array.from({ length: count }, (_, i) =>
        ruleRow(
          i,
          Array.from({ length: size }, () => (next() - 32_768) / 2 ** 13),
        ),
      );
    };
    const options = (hostile: number, size: number): AggregateOptions => ({
      ...{ size, normalize: 'workers', seed: 'seed', aggregation: of(hostile) },
    });

    if (vectors)
      it('T-02: is what NumPy makes of 1,000 random cases, to one ulp', () => {
        const { cases, resultsOf } = rulesVectors();
        const expected = resultsOf(vectors!, precision);
        let [at, ties] = [0, 0];
        for (let i = 0; i < cases; i++) {
          const [count, size] = [5 + (i % 10), 1 + (i % 2)];
          const next = drawsOf(i);
          const draw = () => (i % 5 === 0 ? (next() % 7) - 3 : (next() - 32_768) / 2 ** 13);
          const rows = Array.from({ length: count }, (_, row) => ({
            ...ruleRow(row, Array.from({ length: size }, draw)),
            // only means have weights and clipped rows here
            ...(!isRobust && { weight: 1 + (row % 3), scale: 1 / (1 + (row % 4)) }),
          }));
          const { mean } = aggregate(rows, options(mostHostile(of(0), count), size));
          for (const value of mean) {
            const wanted = expected[at++]!;
            // rows that differ have the same score, so rounding decides between them
            if (Number.isNaN(wanted)) ties++;
            if (Number.isNaN(wanted)) continue;
            if (ulpsBetween(value, wanted, precision) <= 1) continue;
            expect.fail(`case ${i}: ${value} is not ${wanted}`);
          }
        }
        expect(at).toBe(expected.length);
        expect(ties).toBeLessThan(0.1 * expected.length);
      });

    it('T-02: gives the same bits in any order of its rows', () => {
      for (const count of [7, 12, 41]) {
        const rows = drawn(count, 37);
        const hostile = Math.min(3, mostHostile(of(0), count));
        const { mean, unused } = aggregate(rows, options(hostile, 37));
        const next = drawsOf(99);
        for (let shuffle = 0; shuffle < 5; shuffle++) {
          const shuffled = rows
            .map((row) => ({ row, at: next() }))
            .sort((a, b) => a.at - b.at)
            .map(({ row }) => row);
          const again = aggregate(shuffled, options(hostile, 37));
          expect(same(again.mean, mean)).toBe(true);
          expect([...again.unused].sort()).toEqual([...unused].sort());
        }
      }
    });

    it('gives what all rows say where they all say the same', () => {
      const values = [0.5, -2, 0, 3.25];
      const rows = Array.from({ length: 9 }, (_, i) => ruleRow(i, values));
      const { mean } = aggregate(rows, options(mostHostile(of(0), 9), 4));
      for (const [i, value] of mean.entries()) expect(value).toBeCloseTo(values[i]!, 12);
    });

    it('looks at all chunks, and takes a row for as large as its bound lets it be', () => {
      const size = 2 * CHUNK_LENGTH + 5;
      const small = drawn(9, 5);
      const wide = small.map(({ scale: _, ...row }, i) => {
        const values = new Float64Array(size);
        row.values.forEach((value, at) => {
          values[at * 2000] = value * (1 + i);
        });
        return { ...ruleRow(i, values), scale: 1 / (1 + i) };
      });
      const hostile = mostHostile(of(0), 9);
      const scales = wide.map(({ scale }) => scale);
      const near = small.map((row, i) => ({
        ...ruleRow(
          i,
          row.values.map((value) => value * (1 + i) * scales[i]!),
        ),
      }));
      const expected = aggregate(near, options(hostile, 5)).mean;
      const bounded = choice.rule === 'mean' ? wide.map((row) => ({ ...row, scale: 1 })) : wide;
      if (choice.rule === 'mean') return;
      const { mean, moved } = aggregate(bounded, options(hostile, size));
      expect([...moved]).toEqual([0, 1, 2]);
      for (const [at, value] of expected.entries()) expect(mean[at * 2000]).toBeCloseTo(value, 12);
      expect(mean.filter((value) => value !== 0).length).toBeLessThanOrEqual(5);
    });

    if (isRobust)
      it('moves nothing where there are too few rows, and gives them back', () => {
        const rows = drawn(leastRows(of(2)) - 1, 3);
        const { mean, moved, unused } = aggregate(rows, options(2, 3));
        expect([...mean]).toEqual([0, 0, 0]);
        expect(moved).toHaveLength(0);
        expect(unused.size).toBe(rows.length);
        expect(aggregate(drawn(leastRows(of(2)), 3), options(2, 3)).moved).toHaveLength(1);
      });

    if (isRobust)
      it('stays where the honest rows are when f of them are far away', () => {
        const honest = drawn(11, 40);
        const hostile = mostHostile(of(0), 15) > 3 ? 4 : 3;
        const liars = Array.from({ length: hostile }, (_, i) =>
          ruleRow(20 + i, new Float64Array(40).fill(1e6)),
        );
        const { mean } = aggregate([...honest, ...liars], options(hostile, 40));
        // bucketing mixes liars with honest rows, and the rule then has to withstand the buckets
        expect(Math.max(...mean.map(Math.abs))).toBeLessThan(100);
      });
  });
}

const mostHostile = ({ rule, before }: Aggregation, rows: number): number => {
  let hostile = 0;
  const choice = (f: number) => ({ ...usualAggregation, rule, before, hostile: f });
  if (leastRows(choice(1)) === 1) return 0;
  while (leastRows(choice(hostile + 1)) <= rows) hostile++;
  return hostile;
};

/** How many numbers of the precision lie between two. */
function ulpsBetween(a: number, b: number, precision: 'float64' | 'float32'): number {
  const view = new DataView(new ArrayBuffer(8));
  const place = (value: number): bigint => {
    if (precision === 'float32') view.setFloat32(0, value);
    else view.setFloat64(0, value);
    const bits = precision === 'float32' ? BigInt(view.getInt32(0)) : view.getBigInt64(0);
    const most = precision === 'float32' ? -(2n ** 31n) : -(2n ** 63n);
    return bits < 0n ? most - bits : bits;
  };
  // what cancels to nothing is nothing, however small a remainder is
  if (precision === 'float32' && Math.abs(a - b) < 1e-15) return 0;
  const gap = place(a) - place(b);
  return Number(gap < 0n ? -gap : gap);
}
