/** Runs over relays that delay, reorder, repeat, forge and swallow, in real time. */
import { it } from 'vitest';
import { expectWhole } from '../support/expect-whole.ts';
import { createStage } from '../support/stage.ts';
import { largeLayout, startMember } from '../support/swarm.ts';

const { relay, start } = createStage(startMember);

it('N-07: same set, same bits after every round, whatever order, delay or duplicates', async () => {
  const { url } = await relay({
    seed: 7,
    faults: { duplicate: 0.1, reorder: 0.3, delay: { shape: 'uniform', minMs: 0, maxMs: 60 } },
  });
  const plan = { rounds: 20, sync: { strategy: 'strict', workers: 4 } as const, waitFor: 4 };
  const members = [0, 1, 2, 3].map((index) => start({ index, relays: [url], plan }));
  await expectWhole(members, plan.rounds);
});

it('chunks go over two honest relays and one that forges, postdates, swallows, repeats and lies', async () => {
  const hostile = { forge: 0.5, postdate: 0.3, swallow: 0.3, duplicate: 0.3, reorder: 0.3 };
  const [a, b] = [await relay({ strict: 'strfry' }), await relay({ strict: 'strfry' })];
  const c = await relay({ strict: 'strfry', seed: 9, faults: { ...hostile, falseEose: 0.5 } });
  const relays = [c.url, a.url, b.url];
  const plan = { rounds: 3, sync: { strategy: 'strict', workers: 3 } as const, waitFor: 3 };
  const members = [0, 1, 2].map((index) => start({ index, relays, layout: largeLayout, plan }));
  await expectWhole(members, plan.rounds);
});
