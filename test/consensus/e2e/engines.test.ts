import { expect, it } from 'vitest';
import { run } from '../../browser/weighted-order.ts';
import { itInChromium, runInChromium } from '../../support/chromium.ts';
import { readVectors } from '../../support/vectors.ts';

const { orders } = readVectors<{
  readonly orders: readonly { readonly count: number; readonly digest: string }[];
}>('committee.json');
const { count, digest } = orders[0]!;

it(`R-03: ${count} (key, weight) pairs have the order in Node that another language found`, () => {
  expect(run(count)).toBe(digest);
});

itInChromium(`R-03: ${count} (key, weight) pairs have the same order in Chromium`, async () => {
  const entry = new URL('../../browser/weighted-order.ts', import.meta.url);
  expect(await runInChromium<number, string>(entry, count)).toBe(digest);
});
