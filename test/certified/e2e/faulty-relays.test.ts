/** Certified rounds over relays that reorder, repeat, delay and drop, in real time. */
import { expect, it } from 'vitest';
import { certifiedSpec, rootsOf, startCertified } from '../../support/certified-swarm.ts';
import { createStage } from '../../support/stage.ts';

const { relay, start } = createStage(startCertified);

it('N-07: one root over relays that reorder, repeat and drop', async () => {
  const urls = [
    (await relay({ seed: 1, faults: { duplicate: 0.1, reorder: 0.3 } })).url,
    (await relay({ seed: 2, faults: { drop: 0.3, swallow: 0.2 } })).url,
    (await relay({ seed: 3, faults: { delay: { shape: 'uniform', minMs: 0, maxMs: 60 } } })).url,
  ];
  const spec = certifiedSpec({ founders: [0, 1, 2, 3], rounds: 4 });
  const members = [0, 1, 2, 3].map((index) => start({ index, relays: urls, spec }));
  await Promise.all(members.map(({ finished }) => finished));
  for (const member of members) {
    expect(rootsOf(member)).toHaveLength(4);
    expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
  }
}, 60_000);
