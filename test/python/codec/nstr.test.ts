import fc from 'fast-check';
import { createLayout, type Vector } from 'nostrain/tensor';
import { expect, test } from 'vitest';
import {
  decodeNstr,
  encodeNstr,
  selectedCount,
  selectLargest,
} from '../../../src/python/codec/nstr.ts';

/** The rule as one reads it, to hold the radix select against. */
const selectBySorting = (values: Vector, count: number): number[] =>
  [...values.keys()]
    .sort((a, b) => Math.abs(values[b]!) - Math.abs(values[a]!) || a - b)
    .slice(0, count)
    .sort((a, b) => a - b);

// few distinct magnitudes, so that ties are the rule
const tied = fc.constantFrom(0, -0, 1, -1, 0.5, -0.5, 2, 5e-324, -1e-40, 1e38, 1 + 2 ** -52);
const value = fc.oneof(
  tied,
  fc.double({ min: -1e30, max: 1e30, noNaN: true }),
  fc.double({ min: -1e-30, max: 1e-30, noNaN: true }),
);
const vector = fc
  .tuple(fc.array(value, { minLength: 1, maxLength: 60 }), fc.boolean())
  .map(([values, single]) => (single ? Float32Array.from(values) : Float64Array.from(values)));
const ratio = fc.double({ min: 0, max: 1, minExcluded: true, noNaN: true });

test('selects what sorting selects, in both precisions', () => {
  fc.assert(
    fc.property(vector, ratio, (values, share) => {
      const count = selectedCount(values.length, share);
      expect([...selectLargest(values, count)]).toEqual(selectBySorting(values, count));
    }),
    { numRuns: 500 },
  );
});

test('selects from a view into a larger buffer', () => {
  const all = Float64Array.of(9, 1, 3, 2, 9);
  expect([...selectLargest(all.subarray(1, 4), 2)]).toEqual([1, 2]);
});

test('selects a tenth of a large vector', () => {
  let state = 1;
  const values = Float32Array.from({ length: 200_000 }, () => {
    state = Math.imul(state, 1664525) + 1013904223;
    return (state >> 8) % 5000;
  });
  expect([...selectLargest(values, 20_000)]).toEqual(selectBySorting(values, 20_000));
});

test('what is sent is what is decoded, and with the residual it is the input within half a step', () => {
  fc.assert(
    fc.property(vector, ratio, (values, share) => {
      const layout = createLayout([{ name: 'w', shape: [values.length] }]);
      const largest = Math.max(...values.map(Math.abs));
      fc.pre(largest === 0 || largest > 1e-300);
      const { payload, sent, stats } = encodeNstr({ layout, values }, { ratio: share });
      const decoded = decodeNstr(payload, { layout, maxContainerBytes: 1 << 20 });
      expect(decoded).toEqual({ ok: true, value: { delta: sent, stats } });
      const chosen = new Set(sent.indices);
      const smallest = Math.min(...[...chosen].map((i) => Math.abs(values[i]!)));
      values.forEach((exact: number, i: number) => {
        const at = sent.indices.indexOf(i);
        if (at < 0) expect(Math.abs(exact)).toBeLessThanOrEqual(smallest);
        // half a step, plus the rounding of the division and the product
        else
          expect(Math.abs(exact - sent.values[at]!)).toBeLessThanOrEqual(stats.scale * 0.5000001);
      });
    }),
    { numRuns: 300 },
  );
});
