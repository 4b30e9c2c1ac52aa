import { expect, test } from 'vitest';
import { run } from '../browser/weighted-order.ts';
import { readVectors } from '../support/vectors.ts';

const { orders } = readVectors<{
  readonly orders: readonly { readonly count: number; readonly digest: string }[];
}>('committee.json');
const many = orders.at(-1)!;

test(`R-03: ${many.count} (key, weight) pairs have the order in Node that another language found`, () => {
  expect(run(many.count)).toBe(many.digest);
});
