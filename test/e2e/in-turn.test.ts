/** Workers whose parameters are trained in turn, over a relay: what rests is the same bits everywhere, and nothing is said of it. */
import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { PackingName } from '../../src/run/settings.ts';
import { createLayout } from '../../src/tensor/params.ts';
import type { Stretch } from '../../src/tensor/partial-vector.ts';
import type { Plan } from '../../src/worker/plan.ts';
import { genesis } from '../../src/worker/state.ts';
import { arithmeticTrainer, type Member, startMember } from '../support/swarm.ts';

// the second chunk is of both stretches
const layout = createLayout([{ name: 'w', shape: [10_000] }]);
const turns: readonly Stretch[] = [
  { from: 0, to: 6000 },
  { from: 6000, to: 10_000 },
];
const ROUNDS = 4;
let relay: Relay;

afterEach(async () => {
  await relay.close();
});

/** Moves what the turn of the round is of, and nothing else. */
function trainerInTurn(index: number) {
  const whole = arithmeticTrainer(index, layout, { clock: systemClock, trainMs: 0 });
  const train: typeof whole.train = async (task, ...rest) => {
    const trained = await whole.train(task, ...rest);
    const { from, to } = turns[task.round % 2]!;
    const params = task.params.map((value, i) =>
      i >= from && i < to ? trained.params[i]! : value,
    ) as Float32Array;
    return { ...trained, params };
  };
  return { ...whole, train };
}

async function play(plan: Partial<Plan>, packing: PackingName): Promise<readonly Member[]> {
  relay = await createRelay();
  const members = [0, 1, 2].map((index) =>
    startMember({
      ...{ index, layout, packing, relays: [relay.url], trainer: trainerInTurn(index) },
      start: genesis({ layout, values: new Float32Array(layout.size).fill(0.5) }, 1),
      plan: {
        ...{ turns, rounds: ROUNDS, residual: 'feedback', waitFor: 3 },
        sync: { strategy: 'strict', workers: 3 },
        ...plan,
      },
    }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  return members;
}

describe.each([
  ['everything from everybody', {}, 'ternary'],
  [
    'the signs of the largest, and outer momentum',
    { outer: { learningRate: 0.7, momentum: 0.9 } },
    'topk-sign',
  ],
  ['owned chunks', { owners: 2, residual: 'owned' }, 'int8'],
] as const)('%s', (_, plan, packing) => {
  it('ends in the same bits, and rests bit for bit', async () => {
    const members = await play(plan, packing);
    const states = members.map(({ saved }) => {
      const opened = saved.filter(({ sent }) => sent === undefined);
      return Array.from({ length: ROUNDS + 1 }, (__, round) =>
        opened.findLast((state) => state.round === round),
      );
    });
    for (let round = 1; round <= ROUNDS; round++) {
      const [one, ...others] = states.map((own) => own[round]!);
      for (const other of others) expect(other.params.values).toEqual(one!.params.values);
      const before = states[0]![round - 1]?.params.values ?? new Float32Array(10_000).fill(0.5);
      const resting = turns[round % 2]!;
      const moving = turns[(round - 1) % 2]!;
      const of = ({ from, to }: Stretch, values: ArrayLike<number>) =>
        Array.from(values).slice(from, to);
      expect(of(resting, one!.params.values)).toEqual(of(resting, before));
      expect(of(resting, one!.momentum)).toEqual(
        of(resting, states[0]![round - 1]?.momentum ?? one!.momentum.map(() => 0)),
      );
      expect(of(moving, one!.params.values)).not.toEqual(of(moving, before));
    }
  });
});
