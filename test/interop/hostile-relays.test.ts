/** Each relay that nobody here wrote beside one that does something wrong: runs end in the same bits everywhere. */

import { createRelay } from 'nostrain/relay';
import { afterAll, expect, it } from 'vitest';
import type { StartedRelay } from '../contract/relay-under-test.ts';
import { hostileModes } from '../support/hostile-relays.ts';
import { itWith } from '../support/needs.ts';
import { startMember } from '../support/swarm.ts';
import { thirdParties } from './third-parties.ts';

for (const { name, version, install, isInstalled, start } of thirdParties) {
  if (!isInstalled()) {
    itWith(`not installed; that takes: ${install}`)(name, async () => undefined);
    continue;
  }
  let started: Promise<StartedRelay> | undefined;
  afterAll(async () => (await started)?.close());

  it.each(Object.entries(hostileModes))(
    `${name} ${version}, and a relay that %s`,
    async (mode, options) => {
      started ??= start();
      const [honest, other] = [await started, await createRelay(options)];
      const run = `beside ${mode}`;
      const plan = {
        run,
        rounds: 3,
        sync: { strategy: 'strict', workers: 3 } as const,
        waitFor: 3,
        joinTimeoutMs: 20_000,
      };
      const members = [0, 1, 2].map((index) =>
        startMember({ index, relays: [other.url, honest.url], plan, trainMs: 200 }),
      );
      try {
        const ends = await Promise.all(members.map(({ finished }) => finished));
        for (const { params } of ends) expect(params.values).toEqual(ends[0]!.params.values);
      } finally {
        for (const member of members) member.stop();
        await other.close();
      }
    },
  );
}
