import { expect, it } from 'vitest';
import { memoryAfter } from '../support/flood.ts';

/** The whole gigabyte is in test/long/flood.test.ts. */
it('a worker keeps no strangers’ junk: 100 MB of it leave less than 32 MB, and what members said stays', {
  timeout: 240_000,
}, async () => {
  const { heardMegabytes, keptMegabytes } = await memoryAfter({ junkBytes: 100e6, wellMade: 600 });
  expect(heardMegabytes).toBeGreaterThan(100);
  expect(keptMegabytes).toBeLessThan(32);
});
