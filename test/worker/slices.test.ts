/** How a round of several tiers is averaged, slice by slice. */

import { usualAggregation } from 'nostrain/run';
import { CHUNK_LENGTH, createLayout, partialOf, prefixOfPartial } from 'nostrain/tensor';
import { completePlan, genesis, type WorkerState } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { weightedMean } from '../../src/consensus/aggregate/mean.ts';
import { rangeOfPartial } from '../../src/tensor/partial-vector.ts';
import { applyRound, boundedMean, partsOf } from '../../src/worker/apply-round.ts';
import type { SealedState } from '../../src/worker/state.ts';
import { contribution } from '../support/contributions.ts';
import { everything, fakePorts } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

const size = 3 * CHUNK_LENGTH;
const slices = [
  { from: 0, to: CHUNK_LENGTH },
  { from: CHUNK_LENGTH, to: size },
];
const plain = createLayout([
  { name: 'inner', shape: [CHUNK_LENGTH] },
  { name: 'outer', shape: [2 * CHUNK_LENGTH] },
]);
const layout = { ...plain, slices };
const plan = {
  normBound: 0,
  normalize: 'workers',
  aggregation: usualAggregation,
} as const;
const state = { params: { layout, values: new Float32Array(size) }, histories: [] };

/** A contribution with one value, of a worker that has the first `until` values. */
function row(worker: string, value: number, until: number, weight: number) {
  const indices = Uint32Array.from({ length: size }, (_, i) => i);
  const whole = partialOf({ size, indices, values: new Float64Array(size).fill(value) });
  const delta = prefixOfPartial(whole, size, until);
  return { worker, id: worker, late: false, delta, weight };
}

describe('the mean of a round of tiers', () => {
  it.each([
    [1, 1, 1, 1],
    [7, 1, 2, 3],
  ])('E-09: where all say 1 all values move by 1, with weights %d %d %d %d', (...weights) => {
    const rows = weights.map((weight, i) => row(`${i}`, 1, i === 0 ? size : CHUNK_LENGTH, weight));
    const { mean } = boundedMean(rows, state, plan, {});
    expect(mean.mean.every((value) => value === 1)).toBe(true);
    expect([...mean.moved]).toEqual([0, 1, 2]);
  });

  it('E-08: a slice without contributions does not move', () => {
    const rows = [row('a', 1, CHUNK_LENGTH, 1), row('b', 3, CHUNK_LENGTH, 1)];
    const { mean, typical } = boundedMean(rows, state, plan, {});
    expect([...mean.moved]).toEqual([0]);
    expect(mean.mean.subarray(0, CHUNK_LENGTH).every((value) => value === 2)).toBe(true);
    expect(mean.mean.subarray(CHUNK_LENGTH).every((value) => value === 0)).toBe(true);
    expect(typical[1]).toBe(0);
  });

  it('each slice has its own norm bound, so that workers of all tiers clip equally', () => {
    const rows = [
      row('a', 1, size, 1),
      row('b', 1, CHUNK_LENGTH, 1),
      row('c', 100, CHUNK_LENGTH, 1),
      row('d', 8, size, 1),
    ];
    const bounded = { ...plan, normBound: 1.5 };
    const whole = boundedMean(rows, state, bounded, {});
    const own = { ...createLayout(layout.slots.slice(0, 1)), slices };
    const narrow = boundedMean(
      rows.map((one) => ({ ...one, delta: prefixOfPartial(one.delta, own.size) })),
      { params: { layout: own, values: new Float32Array(own.size) }, histories: [] },
      bounded,
      {},
    );
    expect(narrow.mean.mean).toEqual(whole.mean.mean.subarray(0, CHUNK_LENGTH));
    expect(narrow.typical).toEqual(whole.typical.slice(0, 1));
    // workers without the outer slice do not lower its typical norm
    expect(whole.typical[1]).toBeGreaterThan(0);
    expect(narrow.mean.mean[0]).toBe((1 + 1 + 1.5 + 1.5) / 4);
    // two contributions are no majority: the bound is that of a first round
    expect(whole.mean.mean.at(-1)).toBeGreaterThan(0);
  });

  it('each slice keeps its own typical norms, and a worker its newest round', async () => {
    const values = new Float32Array(size).fill(1);
    const sent = {
      event: { id: '0' },
      ...{ trainingLoss: 1, secondsTraining: 0, residualShare: 0 },
    };
    const before = { ...genesis({ layout, values }, 1), norms: [2], outerNorms: [[3]], sent };
    const delta = row('a', 1, size, 1).delta;
    const rounds = [['a', 2], ['b', 5], ['b', 1], ['c', 0]] as const; // biome-ignore format: one line
    const contributions = rounds.map(([worker, round], i) => [
      `${i}`,
      { ...contribution(worker, []), eventId: `${i}`, round, delta },
    ]);
    const session = {
      plan: completePlan({ run: 'r', rounds: 9, innerSteps: 1 }),
      ...{ ports: fakePorts(createManualClock()), signal: new AbortController().signal },
    };
    const start = { base: 'b', roster: [], assignment: everything };
    const { state: after } = await applyRound(
      before as unknown as SealedState<WorkerState>,
      { contributions: new Map(contributions as never), rejections: [] } as never,
      {
        ...{ start, reason: 'async', startedMs: 0, secondsWaiting: 0, meanOf: weightedMean },
        digestsOf: () => ['d', 'e'],
      },
      session,
    );
    expect(after).toMatchObject({ norms: [2, 1], outerNorms: [[3, 1]] });
    expect(after.folded).toEqual({ a: 2, b: 5, c: 0 });
    expect(after.rounds[0]).toMatchObject({ digest: 'd', outer: ['e'], accepted: ['a', 'b', 'c'] });
  });

  it('large contributions with little stake do not set the bound, and buckets are drawn by the seed', () => {
    const whole = { ...plan, normBound: 1 };
    const untiered = { ...state, params: { ...state.params, layout: plain } };
    const rows = [1, 100, 100, 100].map((value, i) => ({
      ...{ ...row(`${i}`, value, size, 1), stake: i === 0 ? 10 : 1 },
    }));
    expect(boundedMean(rows, untiered, whole, {}).typical).toEqual([1]);
    const six = [1, 2, 4, 8, 16, 32].map((value, i) => row(`${i}`, value, size, 1));
    const aggregation = {
      ...usualAggregation,
      rule: 'coordinate-median',
      before: 'bucketing',
    } as const;
    const drawn = (seed: string) =>
      boundedMean(six, untiered, { ...whole, normBound: 0, aggregation }, { seed }).mean.mean[0];
    const seeds = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(64));
    expect(new Set(seeds.map(drawn)).size).toBeGreaterThan(1);
  });

  it.each([
    ['krum', size, [99, 99]],
    ['coordinate-median', CHUNK_LENGTH, [0, 100]],
  ] as const)(
    'what %s leaves out returns to the residual, less what moved instead',
    async (rule, until, left) => {
      const aggregation = { ...usualAggregation, rule, hostile: 1 };
      const moving = Uint32Array.of(0, 1, 2);
      const rows = [
        row('a', 100, size, 1),
        ...['b', 'c', 'd', 'e'].map((w) => row(w, 1, until, 1)),
      ];
      const contributions = rows.map(({ worker, delta }, i) => [
        worker,
        { ...contribution(worker, []), eventId: `${i}`, delta },
      ]);
      const values = new Float32Array(size);
      const sent = {
        event: { id: '0' },
        ...{ trainingLoss: 1, secondsTraining: 0, residualShare: 0 },
      };
      const unpacked = new Float64Array(size).fill(100);
      const before = { ...genesis({ layout: plain, values }, 1), sent, unpacked };
      const { state: after } = await applyRound(
        before as unknown as SealedState<WorkerState>,
        { contributions: new Map(contributions as never), rejections: [] } as never,
        {
          start: {
            base: 'b',
            roster: [],
            assignment: { ...everything, moving, chunksOf: () => moving },
          },
          ...{ reason: 'strict', startedMs: 0, secondsWaiting: 0, meanOf: weightedMean },
          digestsOf: () => ['d'],
        },
        {
          plan: completePlan({
            ...{ run: 'r', rounds: 9, innerSteps: 1 },
            aggregation,
            normBound: 0,
          }),
          ...{ ports: fakePorts(createManualClock()), signal: new AbortController().signal },
        },
      );
      expect([after.residual[0], after.residual[CHUNK_LENGTH]]).toEqual(left);
    },
  );

  it('parts are the slices, each with the tensors in it', () => {
    const values = Float32Array.from({ length: size }, (_, i) => i);
    const parts = partsOf({ layout, values });
    expect(parts.map(({ layout: of }) => of.slots.map(({ name }) => name))).toEqual([
      ['inner'],
      ['outer'],
    ]);
    expect(parts[1]!.values[0]).toBe(CHUNK_LENGTH);
    expect(partsOf({ layout: plain, values })).toHaveLength(1);
  });

  it('a range of a delta is a delta of that range', () => {
    const indices = Uint32Array.from({ length: size }, (_, i) => i);
    // chunk 0 has ones, chunk 1 twos, chunk 2 was not sent
    const values = Float64Array.from(indices, (i) => 1 + Math.floor(i / CHUNK_LENGTH));
    const delta = prefixOfPartial(partialOf({ size, indices, values }), size, 2 * CHUNK_LENGTH);
    const part = rangeOfPartial(delta, slices[1]!);
    expect(part.size).toBe(2 * CHUNK_LENGTH);
    expect([...part.chunks]).toEqual([0]);
    const target = new Float64Array(part.size);
    part.addChunk(0, 1, target, 0);
    expect(target[0]).toBe(2);
    expect(target.at(-1)).toBe(0);
    part.weighChunk(0, 3, target, CHUNK_LENGTH);
    expect([target[CHUNK_LENGTH - 1], target[CHUNK_LENGTH], target.at(-1)]).toEqual([2, 3, 3]);
    expect([
      ...rangeOfPartial(prefixOfPartial(delta, size, CHUNK_LENGTH), slices[1]!).chunks,
    ]).toEqual([]);
  });
});
