/** A million payloads from strangers: no throw, no value that is not finite, no memory beyond what the receiver expects. */
import { expect, test } from 'vitest';
import { judgeFuzzed } from '../support/judge-fuzzed.ts';

test.each([11, 12, 13, 14, 15, 16, 17, 18, 19, 20])('100,000 of seed %i', (seed) => {
  const verdicts = judgeFuzzed(100_000, seed);
  expect([...verdicts.values()].reduce((sum, count) => sum + count, 0)).toBe(100_000);
  expect(verdicts.size).toBeGreaterThan(20);
});
