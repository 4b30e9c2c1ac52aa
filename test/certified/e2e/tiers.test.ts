/** A certified run of several tiers of width: all end in the same bits wherever they hold the same values, and anybody can replay it. */
import { expect, it } from 'vitest';
import { membershipOf } from '../../../src/certified/chain.ts';
import { firstLedger } from '../../../src/consensus/round/membership.ts';
import { chooseJoins } from '../../../src/consensus/round/roster-change.ts';
import { modelRoot } from '../../../src/consensus/state-root.ts';
import { modelOfRun } from '../../../src/model/from-settings.ts';
import { ringsOf } from '../../../src/model/parameters.ts';
import { runIdOf } from '../../../src/run/run-spec.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  keyOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { historyOf, replayed } from '../../support/replaying.ts';
import { createStage } from '../../support/stage.ts';
import { tieredSpec, tierOfModel } from '../../support/tiers.ts';

const { relay, start } = createStage(startCertified);

it('tiers 0, 0, 1 and 2 end every round in the same rings; small ones have no seat; a replay finds the same', async () => {
  const { url } = await relay();
  const spec = tieredSpec([0, 1]);
  expect(spec.features).toContain('widths');
  const tiers = [0, 0, 1, 2];
  const members: CertifiedMember[] = tiers.map((tier, index) =>
    start({ index, relays: [url], spec, ...tierOfModel(spec, tier) }),
  );
  const ends = await Promise.all(members.map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.modelRoot)).size).toBe(1);
  const [
    {
      head: { rings = [] },
    },
  ] = ends as [(typeof ends)[0]];
  expect(rings).toHaveLength(3);
  const bounds = ringsOf(modelOfRun(spec));
  ends.forEach(({ params, momentum }, i) => {
    const held = bounds.slice(0, 3 - tiers[i]!);
    expect(params.values).toHaveLength(held.at(-1)!.to);
    for (const [ring, { from, to }] of held.entries()) {
      const values = params.values.slice(from, to);
      const part = {
        params: { layout: params.layout, values },
        momentum: momentum.slice(from, to),
      };
      expect(modelRoot(part)).toBe(rings[ring]);
    }
  });
  const rounds = members.map(certifiedRounds);
  expect(rounds[0]!.every(({ certified }) => certified!.result === 'final')).toBe(true);
  for (const one of [2, 3]) {
    expect(rounds[0]!.some(({ accepted }) => accepted.includes(keyOf(one)))).toBe(true);
    expect(rounds.flat().some(({ certified }) => certified!.signers.includes(keyOf(one)))).toBe(
      false,
    );
  }
  const { layout, first } = tierOfModel(spec, 0);
  const history = await historyOf(url, spec, layout, first);
  const again = replayed(spec, layout, history, undefined, first);
  expect(again.rounds.map(({ checked }) => checked)).toEqual(Array(6).fill('full'));
  expect(again.end.state.modelRoot).toBe(ends[0]!.head.modelRoot);
});

it('whoever sends rows of another tier than its join names does not count', async () => {
  const { url } = await relay();
  const spec = tieredSpec([0, 1], { rounds: 3 });
  const members = [
    ...[0, 1].map((index) => start({ index, relays: [url], spec, ...tierOfModel(spec, 0) })),
    start({ index: 2, relays: [url], spec, ...tierOfModel(spec, 1), tier: 2 }),
  ];
  await Promise.all(members.map(({ finished }) => finished));
  const rounds = certifiedRounds(members[0]!);
  expect(rounds.some(({ certified }) => certified!.joined.includes(keyOf(2)))).toBe(true);
  expect(rounds.every(({ accepted }) => !accepted.includes(keyOf(2)))).toBe(true);
  const refused = rounds.flatMap((round) => round.refused);
  expect(refused).toContainEqual({ reason: 'other-tier', worker: keyOf(2) });
});

it('a founder that would train a part of the model is told so', async () => {
  const { url } = await relay();
  const spec = tieredSpec([0, 1]);
  const { finished } = start({ index: 1, relays: [url], spec, ...tierOfModel(spec, 1) });
  await expect(finished).rejects.toMatchObject({ code: 'run/tier' });
});

it('a join of a tier that the run has not, and one of a member that names another tier, are refused', () => {
  const spec = tieredSpec([0, 1]);
  const rules = membershipOf(spec, runIdOf(spec));
  const ledger = firstLedger(rules);
  const join = (index: number, tier: number) => ({ key: keyOf(index), tip: 'b'.repeat(64), tier });
  const listed = (...joins: readonly ReturnType<typeof join>[]) =>
    chooseJoins(rules, ledger, joins).map(({ key }) => key);
  expect(listed(join(2, 2), join(3, 3), join(1, 1))).toEqual([keyOf(2)]);
  expect(listed(join(1, 0))).toEqual([keyOf(1)]);
});
