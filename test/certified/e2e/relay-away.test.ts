/** The only relay of a certified run is away for longer than an event is tried: workers wait for it and end in one root. */
import { expect, it, onTestFinished } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  rootsOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { openLine } from '../../support/cuttable-line.ts';
import { createStage } from '../../support/stage.ts';

const { relay, start } = createStage(startCertified);

it('a relay that is away in the middle of a round ends no worker', async () => {
  const { url } = await relay();
  const line = await openLine(url);
  onTestFinished(() => line.close());
  const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 5 });
  const members = [0, 1, 2].map((index) =>
    start({ index, relays: [line.url], spec, trainMs: 1500, plan: { roundTimeoutMs: 60_000 } }),
  );
  await expect
    .poll(() => Math.min(...members.map((one) => certifiedRounds(one).length)), { timeout: 30_000 })
    .toBeGreaterThan(0);
  line.cut();
  await new Promise((resolve) => setTimeout(resolve, 7000));
  line.mend();
  const states = await Promise.all(members.map(({ finished }) => finished));
  expect(states.map(({ round }) => round)).toEqual([5, 5, 5]);
  for (const member of members) {
    expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    const notices = member.events.flatMap((each) => (each.type === 'notice' ? each.message : []));
    expect(notices.join('\n')).toContain('relay away, trying again: ');
  }
}, 120_000);
