/**
 * Runs with screening: a contribution with flipped sign and ten times the size does not count, and everyone can see
 * why.
 */

import { writeFile } from 'node:fs/promises';
import { explain, startOf } from 'nostrain/certified/parts';
import { drawRows } from 'nostrain/model';
import { verifyEvent } from 'nostrain/network';
import { canonicalSpec, runIdOf } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { expect, it } from 'vitest';
import { rollingScore } from '../../src/consensus/scores.ts';
import { troubleOf } from '../../src/dashboard/view.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { runCommand } from '../support/command-line.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { smallLayout } from '../support/swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const file = temporaryFolder();

const stage = createTimedStage(startCertified);
const { relay, start } = stage;

/** Trains part of the way to a target; the loss of a data row is the squared distance to a point near it. */
function distanceTrainer(index: number, factor: number, layout = smallLayout): Trainer {
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
      /^round 1: SCREENED, the contribution of \w{8} raises the loss by /,
    );
  }
  const events = await historyOf(url, spec, smallLayout, undefined, stage);
  const { rounds, gathered } = replayed(spec, smallLayout, events);
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
  const events = await historyOf(url, spec, smallLayout, undefined, stage);
  const { rounds } = replayed(spec, smallLayout, events);
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(7).fill('full'));
  const seated = rounds.map(({ decided }) =>
    decided!.certificate.committee.members.includes(hostile),
  );
  expect(seated).toEqual([true, true, true, true, true, false, false]);
});

it('C-08: `nostrain scores` prints the rolling means of certified scores, and signs weights that a later event replaces', async () => {
  const { url } = relay();
  const document = { scores: true };
  const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 5, document });
  // the command begins at the parameters that the spec determines
  const { layout, values: first } = startOf(spec);
  const members = [0, 1, 2].map((index) => {
    const trainer = distanceTrainer(index, 1, layout);
    return start({ index, relays: [url], spec, layout, first, trainer });
  });
  await Promise.all(members.map(({ finished }) => finished));
  const events = await historyOf(url, spec, layout, Float32Array.from(first), stage);
  await writeFile(file('spec.json'), canonicalSpec(spec));
  await writeFile(file('run.jsonl'), events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  const ask = ['--events', file('run.jsonl'), '--spec', file('spec.json'), '--json'];
  const { stdout } = await runCommand('scores', ...ask, '--sign', '--sec-key', '07'.repeat(32));
  const { scores, rounds, event } = JSON.parse(stdout);
  expect(rounds).toBe(5);
  // the raw score of each round, of which outcomes certify the mean
  const raw = new Map<string, number[]>();
  for (const { certified } of certifiedRounds(members[0]!)) {
    for (const { worker, last } of certified!.scores ?? []) {
      raw.set(worker, [...(raw.get(worker) ?? []), last]);
    }
  }
  const means = [...raw].map(([worker, list]) => ({ worker, score: rollingScore(list) }));
  expect(scores).toHaveLength(3);
  for (const mean of means) expect(scores).toContainEqual(expect.objectContaining(mean));
  const total = means.reduce((sum, { score }) => sum + Math.max(0, score), 0);
  for (const { score, weight } of scores) {
    expect(weight).toBeCloseTo(Math.max(0, score) / total, 9);
  }
  expect(verifyEvent(event).ok).toBe(true);
  expect(event).toMatchObject({ kind: 30078, tags: [['d', `nostrain/weights/${runIdOf(spec)}`]] });
  const { weights } = JSON.parse(event.content);
  const sum = weights.reduce((all: number, [, weight]: [string, number]) => all + weight, 0);
  expect(Math.abs(sum - 1)).toBeLessThan(1e-9);
});
