import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cutRanges } from '../../src/model/optimizers/optimizer.ts';
import type { Range } from '../../src/tensor/partial-vector.ts';

test('even where nothing must stay whole', () => {
  expect(cutRanges(10, 4, [])).toEqual([
    { from: 0, to: 2 },
    { from: 2, to: 5 },
    { from: 5, to: 7 },
    { from: 7, to: 10 },
  ]);
});

test('a border inside something whole moves to its nearer end', () => {
  expect(cutRanges(12, 2, [{ from: 1, to: 8 }])).toEqual([
    { from: 0, to: 8 },
    { from: 8, to: 12 },
  ]);
  expect(cutRanges(12, 3, [{ from: 0, to: 12 }])).toEqual([{ from: 0, to: 12 }]);
});

test('ranges cover everything once, none is empty and none cuts something whole', () => {
  const sizes = fc.array(
    fc.record({ size: fc.integer({ min: 1, max: 40 }), whole: fc.boolean() }),
    {
      minLength: 1,
      maxLength: 12,
    },
  );
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 8 }), (parts, count) => {
      let size = 0;
      const whole: Range[] = [];
      for (const part of parts) {
        if (part.whole) whole.push({ from: size, to: size + part.size });
        size += part.size;
      }
      const ranges = cutRanges(size, count, whole);
      expect(ranges.length).toBeLessThanOrEqual(count);
      expect([0, ...ranges.map(({ to }) => to)]).toEqual([...ranges.map(({ from }) => from), size]);
      for (const { from, to } of ranges) {
        expect(to).toBeGreaterThan(from);
        expect(whole.filter((one) => one.from < from && from < one.to)).toEqual([]);
      }
    }),
  );
});
