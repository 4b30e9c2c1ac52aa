import { expect, it } from 'vitest';
import { heldAfter } from '../support/flood.ts';

/** What a gigabyte of it does to the memory of a process is in test/long/flood.test.ts. */
it('a worker keeps no strangers’ junk: of 100 MB less than 32 MB are held, and what members said stays', {
  timeout: 240_000,
}, async () => {
  const { heardMegabytes, heldMegabytes } = await heldAfter({ junkBytes: 100e6, wellMade: 600 });
  expect(heardMegabytes).toBeGreaterThan(100);
  expect(heldMegabytes).toBeLessThan(32);
});
