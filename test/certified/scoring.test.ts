/** C-02, C-03: how a member scores the contributions of a round: on the rows that all members share, copies without a gain. */

import { deriveKey } from 'nostrain/base';
import type { Vector } from 'nostrain/tensor';
import { expect, it } from 'vitest';
import { scores } from '../../src/certified/features/scores.ts';
import { MOST_SCORE } from '../../src/run/spec/feature-fields.ts';
import { keyOf } from '../support/members.ts';
import { dense } from '../support/vectors.ts';

const RUN = 'a'.repeat(64);
const params = { values: Float32Array.of(1, 2, 3) };
const entropyOf = (round: number) => `${round}`.repeat(64);
type Sent = readonly [index: number, delta: readonly number[]];

/** A member whose loss is the squared distance to 0; `draws` are the data rows that it measured on. */
function createScorer(secret: string) {
  const draws: unknown[] = [];
  const failures: unknown[] = [];
  const feature = scores.create({
    measuring: {
      secret,
      measure: async (values: Vector, on: string, draw: object) => {
        draws.push({ on, ...draw });
        return new Float32Array(4).fill(
          Array.from(values).reduce((sum, each) => sum + each * each, 0),
        );
      },
    },
    reporter: { unmeasured: (round: number) => failures.push(round) },
  } as never)!;
  const commits: (() => Map<number, number>)[] = [];
  return {
    ...{ draws, failures, commits },
    /** Begins a round in which these contributions arrive; returns the scores in its commit. */
    async judge(round: number, arriving: readonly Sent[], members = 70) {
      const ledger = { entropy: entropyOf(round), members: memberRows(members) };
      const arrived = () =>
        arriving.map(([i, delta]) => ({
          worker: keyOf(i),
          delta: dense(Float64Array.from(delta)),
        }));
      const judged = feature.judge!({
        state: { run: RUN, round, ledger, params },
        arrived,
      } as never);
      await new Promise((resolve) => setTimeout(resolve));
      commits.push(() => new Map(judged.commitFields!([]).scores!.of));
      return commits.at(-1)!();
    },
  };
}

const memberRows = (count: number) => Array.from({ length: count }, (_, i) => ({ key: keyOf(i) }));
const half: Sent = [1, [0.5, 1, 1.5]];
/** 14 for the parameters, 3.5 after half of the way to 0. */
const HALF = 10.5e6;

it('C-02: all members measure on the same 32 validation rows, drawn with the randomness of the round after', async () => {
  const members = ['one', 'two'].map(createScorer);
  for (const member of members) {
    await member.judge(3, [half]);
    await member.judge(4, [half]);
    await member.judge(5, []);
  }
  const [draws, others] = members.map((member) => member.draws);
  expect(others).toEqual(draws);
  const drawOf = (round: number) => ({
    ...{ on: 'validation', rows: 32 },
    key: deriveKey('nostrain/scores', RUN, round, entropyOf(round + 1)),
  });
  // before and after each contribution
  expect(draws).toEqual([3, 3, 4, 4].map(drawOf));
});

it('C-03: a copy scores nothing, and what harms still counts against its sender', async () => {
  const member = createScorer('one');
  const harm: Sent = [3, [-1, -2, -3]];
  expect(await member.judge(0, [half, [2, half[1]], harm, [4, harm[1]]])).toEqual(new Map());
  const first = await member.judge(1, [
    [5, half[1]],
    [6, [1, 2, 3]],
    [7, [0, 0, 0]],
  ]);
  expect(first).toEqual(
    new Map([
      [1, HALF],
      [2, 0],
      [3, -42e6],
      [4, -42e6],
    ]),
  );
  // copied from the round before
  const second = await member.judge(2, [[8, [0.1, 0.2, 0.3]]]);
  expect(second).toEqual(new Map([[5, 0], [6, 14e6], [7, 0]])); // biome-ignore format: one line
  await member.judge(3, [[9, half[1]]]);
  // two rounds later it is a contribution of its own
  expect(await member.judge(4, [])).toEqual(new Map([[9, HALF]]));
});

it('C-03: a loss that is no number scores the least', async () => {
  const member = createScorer('one');
  await member.judge(0, [[1, [Number.MAX_VALUE, 0, 0]]]);
  expect(await member.judge(1, [])).toEqual(new Map([[1, -MOST_SCORE]]));
});

it('scores at most 64 contributions, the same ones in any order of arrival', async () => {
  const sent = Array.from({ length: 70 }, (_, i): Sent => [i, [i / 100, 0.1, 0.2]]);
  const [one, two] = [createScorer('one'), createScorer('two')];
  await one.judge(0, sent);
  await two.judge(0, [...sent].reverse());
  const found = await one.judge(1, []);
  expect(found.size).toBe(64);
  expect(await two.judge(1, [])).toEqual(found);
});

it('scores nothing after a round that it missed or for one that is over, nor members that left', async () => {
  const member = createScorer('one');
  await member.judge(0, [half]);
  expect(await member.judge(2, [half])).toEqual(new Map());
  expect(member.draws).toEqual([]);
  expect(await member.judge(3, [half], 1)).toEqual(new Map());
  expect(await member.judge(4, [])).toEqual(new Map([[1, 0]]));
  // a commit of a round that is over
  expect(member.commits.at(-3)!()).toEqual(new Map());
  expect(member.failures).toEqual([]);
});

it('reports the certified scores of members that have any', () => {
  const scored = (history: readonly number[], low: number) => ({
    features: { scores: { history, low } },
  });
  const members = [
    { key: keyOf(0) },
    { key: keyOf(1), ...scored([1, 5], 1) },
    { key: keyOf(2), ...scored([-2], 0) },
    { key: keyOf(3), ...scored([], 1) },
    { key: keyOf(4), features: {} },
  ];
  expect(scores.describe!({ ledger: { members } } as never, [], [])).toEqual({
    scores: [
      { worker: keyOf(1), last: 5, rolling: 3, isLow: true },
      { worker: keyOf(2), last: -2, rolling: -2, isLow: false },
    ],
  });
});

it('reports an engine that fails by its round, and scores nothing without one', async () => {
  const failures: number[] = [];
  const reporter = { unmeasured: (round: number) => failures.push(round) };
  const measure = () => Promise.reject(new Error('no engine'));
  const arrived = () => [{ worker: keyOf(1), delta: dense(Float64Array.of(1, 2, 3)) }];
  for (const measuring of [undefined, { secret: 'one', measure }]) {
    const feature = scores.create({ measuring, reporter } as never)!;
    for (const round of [3, 4]) {
      const ledger = { entropy: entropyOf(round), members: memberRows(3) };
      const judged = feature.judge!({
        state: { run: RUN, round, ledger, params },
        arrived,
      } as never);
      await new Promise((resolve) => setTimeout(resolve));
      expect(judged.commitFields!([])).toEqual({ scores: { of: [] } });
    }
  }
  expect(failures).toEqual([3]);
});
