/** A gigabyte of strangers' events through an honest relay, against a member of a certified run. */
import { expect, it } from 'vitest';
import { memoryAfter } from '../support/flood.ts';

it('a worker that hears a gigabyte of strangers’ events grows by less than 64 MB', async () => {
  const told = await memoryAfter({ junkBytes: 1e9, wellMade: 6000 });
  console.log(told);
  expect(told.heardMegabytes).toBeGreaterThan(1000);
  expect(told.keptMegabytes).toBeLessThan(64);
  expect(told.residentMegabytes).toBeLessThan(64);
});
