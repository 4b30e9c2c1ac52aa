import { expect, test } from 'vitest';
import { fuzzAll } from '../../support/fuzz-all.ts';

/** A million are in test/long/fuzz.test.ts; `npm run bench:fuzz` measures the slowest input and what is kept. */
test('10,000 changed inputs over every parser of the wire and of the relay throw nothing', {
  timeout: 120_000,
}, () => {
  expect(fuzzAll(10_000, 20_261_122)).toBeGreaterThan(20);
});
