/** A million inputs from strangers over every parser, and a million payloads: nothing throws. */
import { expect, test } from 'vitest';
import { fuzzAll } from '../support/fuzz-all.ts';
import { judgeFuzzed } from '../support/judge-fuzzed.ts';

test.each([11, 12, 13, 14, 15, 16, 17, 18, 19, 20])('100,000 of seed %i', (seed) => {
  const verdicts = judgeFuzzed(100_000, seed);
  expect([...verdicts.values()].reduce((sum, count) => sum + count, 0)).toBe(100_000);
  expect(verdicts.size).toBeGreaterThan(20);
});

test('1,000,000 changed inputs over every parser of the wire and of the relay', () => {
  const seed = Number(process.env.FUZZ_SEED ?? 20_261_122);
  console.log({ seed });
  expect(fuzzAll(1_000_000, seed)).toBeGreaterThan(20);
});
