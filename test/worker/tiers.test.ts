/** Workers of several tiers in one run over a relay: what each applies, and which bits they share. */

import type { PackingName } from 'nostrain/run';
import { createLayout, type Layout } from 'nostrain/tensor';
import { genesis, type Trainer, type TrainTask } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { arithmeticTrainer, divergencesOf, roundsOf, startMember } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startMember);
const { relay, start } = stage;

const slices = [
  { from: 0, to: 8192 },
  { from: 8192, to: 12_288 },
  { from: 12_288, to: 15_000 },
];
const tensors = [
  { name: 'a', shape: [100] },
  { name: 'b', shape: [8092] },
  { name: 'b.ring1', shape: [4096] },
  { name: 'b.ring2', shape: [2712] },
];
const layoutOf = (tier: number): Layout => ({
  ...createLayout(tensors.slice(0, 4 - tier)),
  slices,
});

/** Every value of its delta is 1. */
const constantTrainer = (layout: Layout, examples: number): Trainer => ({
  ...arithmeticTrainer(0, layout, { clock: stage.clock, trainMs: 0 }),
  train: async ({ params, steps }) => ({
    params: params.map((value) => value - 1),
    ...{ moments: [], losses: new Float32Array(steps), examples, seconds: 0 },
  }),
});

/** Trains without changing parameters. */
const still = ({ params, steps }: TrainTask) => ({
  params,
  ...{ moments: [], losses: new Float32Array(steps), examples: 1, seconds: 0 },
});

interface Cast {
  readonly tiers: readonly number[];
  readonly rounds?: number;
  readonly trainer?: (layout: Layout, index: number) => Trainer;
  readonly packing?: PackingName;
  readonly plan?: object;
}

async function play({ tiers, rounds = 3, trainer, packing = 'int8', plan = {} }: Cast) {
  const { url } = relay();
  const members = tiers.map((tier, index) => {
    const layout = layoutOf(tier);
    return start({
      ...{ index, layout, relays: [url] },
      packing,
      ...(trainer && { trainer: trainer(layout, index) }),
      plan: {
        ...{ rounds, waitFor: tiers.length },
        sync: { strategy: 'strict', workers: tiers.length },
        ...plan,
      },
    });
  });
  const states = await Promise.all(members.map(({ finished }) => finished));
  return { members, values: states.map(({ params }) => params.values) };
}

describe('a run with workers of several tiers', () => {
  it('ends in the same bits for all values that two workers share', async () => {
    const { members, values } = await play({ tiers: [0, 0, 1, 2] });
    const [whole, other, half, quarter] = values;
    expect(other).toEqual(whole);
    expect(half).toEqual(whole!.subarray(0, 12_288));
    expect(quarter).toEqual(whole!.subarray(0, 8192));
    expect(members.flatMap(divergencesOf)).toEqual([]);
    for (const member of members) {
      expect(roundsOf(member).map(({ accepted }) => accepted.length)).toEqual([4, 4, 4]);
    }
    const digests = members.map((member) => roundsOf(member).at(-1)!);
    expect(new Set(digests.map(({ digest }) => digest)).size).toBe(1);
    expect(digests.map(({ outer = [] }) => outer.length)).toEqual([2, 2, 1, 0]);
    expect(digests[2]!.outer).toEqual(digests[0]!.outer!.slice(0, 1));
  });

  it('E-08: training by smaller tiers only leaves the rest of the model unchanged', async () => {
    const quiet = (layout: Layout, index: number): Trainer => ({
      ...arithmeticTrainer(index, layout, { clock: stage.clock, trainMs: 0 }),
    });
    const { values } = await play({ tiers: [1, 1, 1], trainer: quiet });
    expect(values[0]).toHaveLength(12_288);
    // a worker of the full model that only observes: even if its contribution is refused, it applies the others'
    const { values: mixed } = await play({
      tiers: [1, 1, 0],
      trainer: (layout, index) =>
        index < 2
          ? quiet(layout, index)
          : { ...constantTrainer(layout, 1), train: async (task) => still(task) },
    });
    expect(mixed[2]!.subarray(12_288).every((value) => value === 0)).toBe(true);
    expect(mixed[2]!.subarray(0, 12_288)).toEqual(mixed[0]);
    expect(mixed[0]!.some((value) => value !== 0)).toBe(true);
  });

  it.each([
    { weights: 'equal', examples: [8, 8, 8, 8] },
    { weights: 'examples', examples: [64, 8, 16, 24] },
  ] as const)(
    'E-09: one of tier 0 and three of tier 1 that all send 1 move all values by the outer rate, with $weights weights',
    async ({ weights, examples }) => {
      const { values } = await play({
        tiers: [0, 1, 1, 1],
        rounds: 1,
        trainer: (layout, index) => constantTrainer(layout, examples[index]!),
        plan: { weights, normBound: 0, outer: { learningRate: 0.5, momentum: 0 } },
      });
      // the same number everywhere; its encoding of 1 depends on the packing
      const [moved] = values[0]!;
      expect(moved).toBeCloseTo(-0.5, 4);
      expect(new Set([...values[0]!, ...values[1]!])).toEqual(new Set([moved]));
    },
  );

  it('a worker with other bits in an outer slice counts only for the slices before it, on all workers', async () => {
    const { url } = relay();
    const common = { relays: [url], packing: 'int8' as const };
    const rest = { rounds: 1, waitFor: 3, sync: { strategy: 'timeout' as const } };
    const member = (index: number, tier: number, shift: number) => {
      const layout = layoutOf(tier);
      const values = new Float32Array(layout.size).fill(shift, 8192);
      return start({
        ...{ ...common, index, layout },
        start: { ...genesis({ layout, values }, 1) },
        plan: { ...rest, roundTimeoutMs: 3000 },
      });
    };
    const [whole, other, quarter] = [member(0, 0, 0), member(1, 1, 0.5), member(2, 2, 0)];
    await Promise.all([whole, other, quarter].map(({ finished }) => finished));
    const [seen] = roundsOf(whole);
    expect(seen!.accepted).toHaveLength(3);
    expect(seen!.digest).toBe(roundsOf(quarter)[0]!.digest);
    expect(seen!.outer![0]).not.toBe(roundsOf(other)[0]!.outer![0]);
    const [first] = divergencesOf(whole);
    expect(first).toMatchObject({ round: 0, peer: other.id });
  });
});
