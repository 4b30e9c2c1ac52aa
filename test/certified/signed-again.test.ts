/** A relay starts to require proof of work when a contribution is already signed: it is signed again and counts. */
import type { CertifiedState } from 'nostrain/certified/parts';
import { expect, it } from 'vitest';
import { certifiedRounds, certifiedSpec, startCertified } from '../support/certified-swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);

it('a contribution that is signed again for proof of work counts in the first view', async () => {
  const faults = { work: 0 };
  const relay = stage.relay({ faults });
  const rounds = 6;
  const spec = certifiedSpec({ founders: [0, 1, 2], rounds });
  const signed: string[][] = Array.from({ length: rounds }, () => []);
  // the relay requires more work in each round, once the contribution is on disk and until it is signed again
  const onSave = ({ round, sent }: CertifiedState) => {
    if (sent === undefined) return;
    signed[round]!.push(sent.event.id);
    faults.work = signed[round]!.length === 1 ? round + 4 : 0;
  };
  const members = [0, 1, 2].map((index) =>
    stage.start({
      ...{ index, relays: [relay.url], spec, trainMs: index === 0 ? 1000 : 1200 },
      ...(index === 0 && { onSave }),
    }),
  );
  await stage.until(() => members.every((one) => certifiedRounds(one).length === rounds));
  expect(signed.filter((ids) => ids.length > 1).length).toBeGreaterThan(2);
  for (const member of members) {
    expect(member.events.filter(({ type }) => type === 'stalled')).toEqual([]);
    for (const { accepted } of certifiedRounds(member)) expect(accepted).toHaveLength(3);
  }
});
