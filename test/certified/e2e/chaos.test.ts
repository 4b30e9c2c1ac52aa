/**
 * Workers are killed, and relays lie, lose data and die: a few rounds of what `npm run bench:chaos` plays a hundred
 * times.
 */
import { expect, it } from 'vitest';
import { expectWhole } from '../../support/chaos/expect-whole.ts';

it('30 % of the workers killed and one relay harmful in each round: one root, nothing lost, nothing signed twice', async () => {
  const { learned, final, kills } = await expectWhole({ rounds: 6, seed: 3 });
  expect(learned).toBeGreaterThan(1);
  expect(final).toBeGreaterThanOrEqual(4);
  expect(kills).toBeGreaterThan(10);
}, 60_000);
