/**
 * Runs with screening: a contribution with flipped sign and ten times the size does not count, and everyone can see
 * why.
 */

import { explain } from 'nostrain/certified/parts';
import { drawRows } from 'nostrain/model';
import type { Trainer } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { troubleOf } from '../../src/dashboard/view.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { smallLayout as layout } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

/** Trains part of the way to a target; the loss of a data row is the squared distance to a point near it. */
function distanceTrainer(index: number, factor: number): Trainer {
  const target = (i: number) => 1 + (i % 5);
  return {
    device: { device: 'cpu', threads: 1 },
    layout,
    async train({ params }) {
      const step = (value: number, i: number) =>
        value + factor * (0.3 + 0.02 * index) * (target(i) - value);
      const losses = Float32Array.of(1);
      return { params: params.map(step), moments: [], losses, examples: 8, seconds: 0 };
    },
    evaluate: async () => 1,
    measure: async (params, _, { key, rows: batch }) => {
      const rows = drawRows({ key, round: 0, firstStep: 0, steps: 1, batch, bound: 100 });
      return Float32Array.from(rows, (row) =>
        Float32Array.from(params, (value, i) => (value - target(i) - (row - 50) / 500) ** 2).reduce(
          (sum, each) => sum + each,
          0,
        ),
      );
    },
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
}

const screenedBy = ({ events }: CertifiedMember) =>
  events.filter((event) => event.type === 'screened');

it('harmful contributions are not listed, no view is lost, and events, votes and explanations say so', async () => {
  const { url } = relay();
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2, 3, 4], rounds: 3 },
    document: { screening: true },
  });
  expect(spec.features).toEqual(['screening']);
  const members = [0, 1, 2, 3, 4].map((index) =>
    start({ index, relays: [url], spec, trainer: distanceTrainer(index, index === 4 ? -10 : 1) }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  const hostile = keyOf(4);
  for (const member of members.slice(0, 4)) {
    for (const { accepted, certified } of certifiedRounds(member)) {
      expect(certified).toMatchObject({ result: 'final', view: 0, screened: [hostile] });
      expect(accepted).toEqual([0, 1, 2, 3].map(keyOf).sort());
    }
    const told = screenedBy(member);
    expect(told.map(({ worker, round }) => [worker, round])).toEqual(
      [0, 1, 2].map((round) => [hostile, round]),
    );
    for (const { gain, bound } of told) expect(gain).toBeLessThan(bound);
    expect(troubleOf(told[0]!)).toMatch(
      /^round 1: SCREENED, the contribution of npub1\w+ raises the loss by /,
    );
  }
  const events = await historyOf(url, spec, layout, undefined, stage);
  const { rounds, gathered } = replayed(spec, layout, events);
  expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full', 'full']);
  const { counted, why } = explain(hostile, rounds[0]!, rounds[1], gathered);
  expect(counted).toBe(false);
  expect(why.join(' ')).toMatch(
    /Screened: \d of the \d votes of its certificate say that it is harmful/,
  );
});

it('scores are certified: a sign-flipping worker falls below the floor, loses its seat and has no weight', async () => {
  const { url } = relay();
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2, 3, 4], rounds: 7 },
    document: { scores: true },
  });
  expect(spec.features).toEqual(['scores']);
  const members = [0, 1, 2, 3, 4].map((index) =>
    start({
      ...{ index, relays: [url], spec },
      trainer: distanceTrainer(index, index === 4 ? -10 : 1),
    }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  const hostile = keyOf(4);
  const told = certifiedRounds(members[0]!).map(({ certified }) => certified!.scores!);
  const lowIn = told.map((scores) =>
    scores.filter(({ isLow }) => isLow).map((each) => each.worker),
  );
  // the first scores are those of round 0, reported in commits of round 1 and listed by outcome 2
  expect(lowIn).toEqual([[], [], [], [hostile], [hostile], [hostile], [hostile]]);
  for (const { worker, rolling } of told.at(-1)!) {
    expect(rolling > 0).toBe(worker !== hostile);
  }
  for (const member of members.slice(1)) {
    expect(certifiedRounds(member).map(({ certified }) => certified!.scores)).toEqual(told);
  }
  const { rounds } = replayed(spec, layout, await historyOf(url, spec, layout, undefined, stage));
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(7).fill('full'));
  const seated = rounds.map(({ decided }) =>
    decided!.certificate.committee.members.includes(hostile),
  );
  expect(seated).toEqual([true, true, true, true, true, false, false]);
});
