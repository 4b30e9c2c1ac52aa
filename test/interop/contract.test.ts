/** The transport suite over relays that nobody here wrote, and what each of them does in its own way. */
import { afterAll, describe, expect, it } from 'vitest';
import { observe } from '../contract/behavior.ts';
import type { StartedRelay } from '../contract/relay-under-test.ts';
import { testTransport } from '../contract/transport.ts';
import { itWith } from '../support/needs.ts';
import { thirdParties } from './third-parties.ts';

const missing = thirdParties.filter((relay) => !relay.isInstalled());

for (const { name, install } of missing) {
  itWith(`not installed; that takes: ${install}`)(name, async () => undefined);
}

for (const { name, version, start, behavior } of thirdParties) {
  if (missing.some((relay) => relay.name === name)) continue;
  let started: Promise<StartedRelay> | undefined;
  /** One for all tests of the suite: most take seconds to start. */
  const shared = async (): Promise<StartedRelay> => {
    started ??= start();
    return { url: (await started).url, close: async () => undefined };
  };
  afterAll(async () => (await started)?.close());

  const { contentBytes, oversize, subscriptions } = behavior;
  testTransport({
    name: `${name} ${version}`,
    start: shared,
    tooLarge: oversize === undefined ? undefined : 2 * contentBytes + 9000,
    // what a subscription missed is asked for once more, by one beside it
    subscriptions: Math.floor(subscriptions[1] / 2),
  });

  describe(`${name} ${version}`, () => {
    it('differs from others as docs/results/other-relays.md says', async () => {
      const relay = await start(); // its own: some limits count what went before
      try {
        expect(await observe(relay.url)).toEqual(behavior);
      } finally {
        await relay.close();
      }
    });
  });
}
