import fc from 'fast-check';
import { usualAggregation } from 'nostrain/run';
import { CHUNK_LENGTH, prefixOfPartial } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { agreementOf, rateFor } from '../../../src/consensus/aggregate/agreement.ts';
import { aggregate } from '../../../src/consensus/aggregate/rules.ts';
import { testRule } from '../../contract/rule.ts';
import { ruleRow } from '../../support/rule-rows.ts';
import { dense } from '../../support/vectors.ts';

const nothing = { before: 'nothing' } as const;
testRule({ rule: 'mean', ...nothing }, { vectors: 'mean' });
testRule({ rule: 'clipped-mean', ...nothing }, { vectors: 'clipped-mean' });
testRule({ rule: 'trimmed-mean', ...nothing }, { vectors: 'trimmed-mean' });
testRule({ rule: 'coordinate-median', ...nothing }, { vectors: 'coordinate-median' });
testRule({ rule: 'krum', ...nothing }, { vectors: 'krum' });
testRule({ rule: 'multi-krum', ...nothing }, { vectors: 'multi-krum' });
const float32 = { precision: 'float32' } as const;
testRule({ rule: 'geometric-median', ...nothing }, { vectors: 'geometric-median', ...float32 });
testRule({ rule: 'centered-clip', ...nothing }, { vectors: 'centered-clip', ...float32 });
testRule({ rule: 'trimmed-mean', before: 'nnm' }, { vectors: 'nnm+trimmed-mean', ...float32 });
testRule(
  { rule: 'geometric-median', before: 'nnm' },
  { vectors: 'nnm+geometric-median', ...float32 },
);
testRule({ rule: 'krum', before: 'nnm' }, { vectors: 'nnm+krum', ...float32 });
testRule(
  { rule: 'coordinate-median', before: 'nnm' },
  { vectors: 'nnm+coordinate-median', ...float32 },
);
testRule(
  { rule: 'centered-clip', before: 'bucketing' },
  { vectors: 'bucketing+centered-clip', ...float32 },
);
testRule(
  { rule: 'multi-krum', before: 'bucketing' },
  { vectors: 'bucketing+multi-krum', ...float32 },
);

describe('Krum', () => {
  it('T-02: gives one of its rows as it is, and names the others as unused', () => {
    const rows = Array.from({ length: 7 }, (_, i) => ruleRow(i, [0.1 * i, 0.3 + i * i]));
    const aggregation = { ...usualAggregation, rule: 'krum', hostile: 2 } as const;
    const { mean, unused } = aggregate(rows, { size: 2, normalize: 'workers', aggregation });
    const chosen = rows.filter(({ id }) => !unused.has(id));
    expect(chosen).toHaveLength(1);
    expect([...mean]).toEqual(chosen[0]!.values);
  });

  it('T-02: chooses none of too few', () => {
    const aggregation = { ...usualAggregation, rule: 'krum', hostile: 2 } as const;
    for (const before of ['nothing', 'bucketing'] as const) {
      const least = before === 'bucketing' ? 13 : 7;
      const unusedOf = (count: number) => {
        const rows = Array.from({ length: count }, (_, i) => ruleRow(i, [1 + i * i]));
        const options = { size: 1, normalize: 'workers', seed: 'x' } as const;
        const result = aggregate(rows, { ...options, aggregation: { ...aggregation, before } });
        expect(result.mean[0]! > 0).toBe(count === least);
        return result.unused.size;
      };
      expect(unusedOf(least - 1)).toBe(least - 1);
      expect(unusedOf(least)).toBeLessThan(least);
    }
  });
});

it('T-02: rows without a chunk neither count nor win, and rows of other sizes have no aggregate', () => {
  const aggregation = { ...usualAggregation, rule: 'krum', hostile: 2 } as const;
  const empty = (i: number) => {
    const row = ruleRow(i, [1]);
    return { ...row, delta: prefixOfPartial(row.delta, 1, 0) };
  };
  const meanOf = (full: number, without: number) => {
    const rows = Array.from({ length: full + without }, (_, i) =>
      i < full ? ruleRow(i, [3 + i]) : empty(i),
    );
    return aggregate(rows, { size: 1, normalize: 'workers', aggregation });
  };
  expect([...meanOf(6, 6).mean]).toEqual([0]);
  const { mean, unused } = meanOf(7, 6);
  expect(mean[0]).toBeGreaterThan(0);
  expect(unused.size).toBe(6);
  const sizes = [1, 1, 1, 1, 1, 1, 2].map((size, i) => ruleRow(i, new Array(size).fill(1)));
  const mixed = () => aggregate(sizes, { size: 1, normalize: 'workers', aggregation });
  expect(mixed).toThrow('different sizes');
});

describe('the rate by agreement', () => {
  const rateOf = (rows: readonly (readonly number[])[]) => {
    const aggregation = { ...usualAggregation, leastRatePermille: 250 };
    return aggregate(
      rows.map((row, i) => ruleRow(i, row)),
      { size: rows[0]!.length, normalize: 'workers', aggregation },
    ).rate;
  };

  it('T-22: is whole where rows are identical, and the least where they are opposed', () => {
    expect(
      rateOf([
        [1, 2],
        [1, 2],
        [1, 2],
      ]),
    ).toBeCloseTo(1, 12);
    expect(
      rateOf([
        [1, 2],
        [10, 20],
      ]),
    ).toBeCloseTo(1, 12);
    expect(
      rateOf([
        [1, 2],
        [-1, -2],
      ]),
    ).toBe(0.25);
    expect(
      rateOf([
        [1, 0],
        [0, 1],
      ]),
    ).toBe(0.25);
    expect(rateOf([[1, 2]])).toBe(1);
    expect(
      rateOf([
        [0, 0],
        [0, 0],
      ]),
    ).toBe(1);
  });

  it('T-22: is that of the rows that the rule used', () => {
    const krum = { rule: 'krum', hostile: 1, leastRatePermille: 250 } as const;
    const aggregation = { ...usualAggregation, ...krum };
    const rows = [1, -1, 1, -1, 1].map((value, i) => ruleRow(i, [value]));
    expect(aggregate(rows, { size: 1, normalize: 'workers', aggregation }).rate).toBe(1);
  });

  it('T-22: follows the mean cosine', () => {
    const rows = [ruleRow(0, [1, 0]), ruleRow(1, [3, 4])];
    expect(agreementOf(rows)).toBeCloseTo(0.6, 12);
    expect(rateFor(0.6, 0.5)).toBeCloseTo(0.8, 12);
    expect([-1, -0.1, 0, 1, 2].map((each) => rateFor(each, 0.5))).toEqual([0.5, 0.5, 0.5, 1, 1]);
  });

  it('T-22: sums the products over shared chunks, and over their lengths, of rows at the same typical size', () => {
    const size = 2 * CHUNK_LENGTH + 3;
    const drawn = fc.record({
      // values of the first 1, 2 or 3 chunks, which differ in length
      factors: fc.array(fc.constantFrom(-1, 0, 0.25, 1, 3), { minLength: 1, maxLength: 3 }),
      wave: fc.integer({ min: 1, max: 4 }),
      size: fc.constantFrom(1e-3, 1, 50),
    });
    const product = (a: Float64Array, b: Float64Array) =>
      a.reduce((sum, x, k) => sum + x * b[k]!, 0);
    const lengthOf = (a: Float64Array) => Math.sqrt(product(a, a));
    fc.assert(
      fc.property(fc.array(drawn, { minLength: 1, maxLength: 5 }), (rows) => {
        const sent = rows.map(({ factors, wave, size: scale }) => {
          const values = Float64Array.from(
            { length: Math.min(size, factors.length * CHUNK_LENGTH) },
            (_, k) => scale * factors[Math.floor(k / CHUNK_LENGTH)]! * Math.cos(wave * (k + 1)),
          );
          const typical = lengthOf(values) / Math.sqrt(values.length);
          return { values, unit: values.map((value) => (typical > 0 ? value / typical : 0)) };
        });
        let [common, most] = [0, 0];
        for (const from of [0, CHUNK_LENGTH, 2 * CHUNK_LENGTH])
          for (const [i, { unit }] of sent.entries())
            for (const other of sent.slice(0, i)) {
              const [a, b] = [unit, other.unit].map((each) =>
                each.slice(from, from + CHUNK_LENGTH),
              );
              if (a!.length !== b!.length) continue;
              common += product(a!, b!);
              most += lengthOf(a!) * lengthOf(b!);
            }
        const made = sent.map(({ values }, i) => {
          const all = Float64Array.from({ length: size }, (_, k) => values[k] ?? 0);
          return { ...ruleRow(i, all), delta: prefixOfPartial(dense(all), size, values.length) };
        });
        expect(agreementOf(made)).toBeCloseTo(most > 0 ? common / most : 1, 9);
      }),
      { numRuns: 30 },
    );
  });
});
