import { expect, test } from 'vitest';
import { fuzzAll } from '../../support/fuzz-all.ts';

/** A million are in test/long/fuzz.test.ts. */
test('10,000 changed inputs over every parser of the wire and of the relay: no crash, no stall, no growth', () => {
  const told = fuzzAll(10_000, 20_261_122);
  expect(told.targets).toBeGreaterThan(20);
  expect(told.grownMegabytes).toBeLessThan(48); // code that is compiled meanwhile; the long one has room for less
  expect(told.slowest.ms, told.slowest.name).toBeLessThan(2000);
});
