/** A gigabyte of strangers' events through an honest relay, against a member of a certified run that is alone in its process. */
import { expect, it } from 'vitest';
import { residentAfter } from '../support/flood.ts';

it('benchmark: a worker that hears a gigabyte of strangers’ events grows by less than 64 MB', async () => {
  const { before, after } = await residentAfter({ junkBytes: 1e9, wellMade: 6000 });
  console.log({ before, after });
  expect(after.heard - before.heard).toBeGreaterThan(1000);
  expect(after.mostResident - before.resident).toBeLessThan(64);
});
