/** The demo over several relays of which some fail or lie, by `--relay` as a user would. */

import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import { startDemo } from '../support/demo-run.ts';

const open: Relay[] = [];
const relay = async (options: RelayOptions = {}): Promise<Relay> => {
  const one = await createRelay(options);
  open.push(one);
  return one;
};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

describe('nostrain demo linear --relay', () => {
  it('N-08, N-09: over three relays of which one dies mid-round and one drops half of everything', async () => {
    const dying = await relay();
    const lossy = await relay({ seed: 3, faults: { swallow: 0.5, drop: 0.5 } });
    const good = await relay();
    const demo = startDemo('linear', [dying.url, lossy.url, good.url], ['--rounds', '6']);
    let over = false;
    const end = () => {
      over = true;
    };
    demo.then(end, end);
    // the first round is over by then
    while (!over && dying.stats().eventsAccepted < 14) await pause(2);
    await dying.close();
    const { told, document } = await demo;
    expect(document.rounds).toHaveLength(6);
    expect(told).toContain(`${dying.url} was cut off`);
    expect(told).not.toContain(`; ${good.url} `);
    expect(lossy.stats().eventsSwallowed).toBeGreaterThan(0);
    expect(lossy.stats().deliveriesDropped).toBeGreaterThan(0);
  });

  it('N-09: over two honest relays and one that forges, postdates, swallows, repeats, shuffles and lies', async () => {
    const hostile = await relay({
      seed: 9,
      faults: { forge: 0.5, postdate: 0.3, swallow: 0.3, duplicate: 0.3, reorder: 0.3, falseEose: 0.5 }, // biome-ignore format: one relay
    });
    const [a, b] = [await relay(), await relay()];
    const { document } = await startDemo('linear', [hostile.url, a.url, b.url]);
    expect(document.rounds).toHaveLength(5);
    const { twinsSent, eventsSwallowed, eosesFalse } = hostile.stats();
    for (const count of [twinsSent, eventsSwallowed, eosesFalse]) expect(count).toBeGreaterThan(0);
  });
});
