/**
 * The only relay of a certified run is offline for longer than events are retried: workers wait for it and end in one
 * root.
 */
import { expect, it } from 'vitest';
import {
  certifiedRounds,
  certifiedSpec,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);

it('a relay that goes offline in the middle of a round stops no worker', async () => {
  const relay = stage.relay();
  const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 5 });
  const plan = { roundTimeoutMs: 60_000 };
  const members = [0, 1, 2].map((index) =>
    stage.start({ index, relays: [relay.url], spec, trainMs: 1500, plan }),
  );
  await stage.until(() => members.every((one) => certifiedRounds(one).length > 0));
  relay.cut();
  await stage.clock.sleep(7000);
  relay.mend();
  const states = await Promise.all(members.map(({ finished }) => finished));
  expect(states.map(({ round }) => round)).toEqual([5, 5, 5]);
  for (const member of members) {
    expect(rootsOf(member)).toEqual(rootsOf(members[0]!));
    const notices = member.events.flatMap((each) => (each.type === 'notice' ? each.message : []));
    expect(notices.join('\n')).toMatch(/relay offline, retrying: .*\nrelay back after \d+ s/);
  }
});
