/** A gigabyte of strangers' events through an honest relay, against a member of a certified run. */
import { expect, it } from 'vitest';
import { memoryAfter } from '../support/flood.ts';

it('a worker that hears a gigabyte of strangers’ events keeps less than 64 MB of them', async () => {
  const told = await memoryAfter({ junkBytes: 1e9, wellMade: 6000 });
  console.log(told);
  expect(told.heardMegabytes).toBeGreaterThan(1000);
  expect(told.keptMegabytes).toBeLessThan(64);
  // the relay and whoever floods are in this process too, with events of 2 MB on their way
  expect(told.residentMegabytes).toBeLessThan(256);
});
