/** Two workers with real engines over a relay, whose rounds overlap: one is ahead while the other still trains, and both end in the same bits. */
import { afterAll, afterEach, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { deferred } from '../../src/base/deferred.ts';
import { initialParameters } from '../../src/model/parameters.ts';
import { createTrainer } from '../../src/node/engine/trainer.ts';
import type { Trainer as OrtTrainer } from '../../src/trainer/trainer.ts';
import type { Trainer } from '../../src/worker/ports.ts';
import { genesis } from '../../src/worker/state.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../support/ort-models.ts';
import { roundsOf, startMember } from '../support/swarm.ts';

const STEPS = 12;
const ROUNDS = 3;
const BATCH = 8;
const trainers: OrtTrainer[] = [];
let relay: Relay;

afterEach(() => relay.close());
afterAll(() => Promise.all(trainers.map((trainer) => trainer.close())));

async function engine(from: number): Promise<OrtTrainer> {
  const corpus = chainCorpus(4000, smallGpt.vocabulary).subarray(from, from + 2000);
  const data = { kind: 'tokens', shard: corpus, validation: corpus } as const;
  const setup = { model: smallGpt, optimizer: adamwSpec, batch: BATCH, data } as const;
  const trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1 });
  trainers.push(trainer);
  return trainer;
}

it('counts the steps ahead once, and evaluates while they are taken', async () => {
  relay = await createRelay();
  const [first, second] = [await engine(0), await engine(2000)];
  const isAhead = deferred<void>();
  const taken: number[] = [];
  const early: Trainer = {
    ...first,
    async train(task, ...rest) {
      if (task.round === 1) isAhead.settle();
      const trained = await first.train(task, ...rest);
      if (task.keeping?.from) taken.push(task.keeping.from.done);
      return trained;
    },
  };
  const late: Trainer = {
    ...second,
    async train(task, ...rest) {
      if (task.round === 0) await isAhead.promise;
      return second.train(task, ...rest);
    },
  };
  const { layout } = first;
  const members = [early, late].map((trainer, index) =>
    startMember({
      ...{ index, layout, trainer, relays: [relay.url], packing: 'int8' },
      start: genesis({ layout, values: initialParameters(smallGpt, 1) }, 9),
      plan: {
        ...{ overlap: true, rounds: ROUNDS, innerSteps: STEPS, evaluate: true, waitFor: 2 },
        sync: { strategy: 'strict', workers: 2 },
      },
    }),
  );
  const [one, other] = await Promise.all(members.map(({ finished }) => finished));
  expect(one!.params.values).toEqual(other!.params.values);
  expect([one!.tokens, other!.tokens]).toEqual(Array(2).fill(ROUNDS * STEPS * BATCH));
  expect(taken[0]).toBeGreaterThan(0);
  const losses = roundsOf(members[0]!).map(({ validationLoss }) => validationLoss!);
  expect(losses.at(-1)).toBeLessThan(losses[0]!);
});
