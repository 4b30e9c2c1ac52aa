import { deriveKey } from 'nostrain/base';
import { expect, test } from 'vitest';
import { drawRows, evenRows } from '../../src/model/batches.ts';

const draw = { key: deriveKey('test', 1), round: 3, batch: 6, bound: 1000 };

test('any step can be drawn alone', () => {
  const all = drawRows({ ...draw, firstStep: 0, steps: 10 });
  expect(drawRows({ ...draw, firstStep: 7, steps: 2 })).toEqual(all.slice(42, 54));
  expect(drawRows({ ...draw, round: 4, firstStep: 7, steps: 2 })).not.toEqual(all.slice(42, 54));
});

test('rows cover the bound evenly', () => {
  const rows = drawRows({ ...draw, firstStep: 0, steps: 2000 });
  const tenths = new Array<number>(10).fill(0);
  for (const row of rows) tenths[Math.floor(row / 100)]!++;
  for (const count of tenths) expect(Math.abs(count - 1200)).toBeLessThan(150);
});

test('even rows share nothing and span the data', () => {
  expect([...evenRows(100, 30, Infinity)]).toEqual([0, 30, 60, 90]);
  expect([...evenRows(100, 30, 2)]).toEqual([0, 60]);
  expect([...evenRows(0, 30, 2)]).toEqual([]);
});
