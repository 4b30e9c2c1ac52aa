import { expect, it } from 'vitest';
import { heldAfter } from '../support/flood.ts';

/** The full test with a gigabyte is in test/long/flood.test.ts. */
it('a worker keeps no strangers’ junk: 100 MB of it leave less than 32 MB, and members’ messages stay', {
  timeout: 240_000,
}, async () => {
  const { heardMegabytes, heldMegabytes } = await heldAfter({ junkBytes: 100e6, wellMade: 600 });
  expect(heardMegabytes).toBeGreaterThan(100);
  expect(heldMegabytes).toBeLessThan(32);
});
