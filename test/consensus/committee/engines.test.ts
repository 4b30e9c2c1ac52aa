import { expect, test } from 'vitest';
import { run } from '../../browser/weighted-order.ts';
import { readVectors } from '../../support/vectors.ts';

const { orders } = readVectors<{
  readonly orders: readonly { readonly count: number; readonly digest: string }[];
}>('committee.json');
const [few] = orders;

test(`R-03: ${few!.count} (key, weight) pairs have the order in Node that another language found`, () => {
  expect(run(few!.count)).toBe(few!.digest);
});
