/** Adapters of which one matrix trains in each round while the other rests. */
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type LoraSpec, loraModel } from '../../../src/model/adapters/lora.ts';
import { initialParameters, modelLayout, turnsOf } from '../../../src/model/parameters.ts';
import { createTrainer } from '../../../src/node/engine/trainer.ts';
import type { AdapterTrain, LlamaSpec, OptimizerSpec } from '../../../src/run/spec/model-spec.ts';
import type { Trainer } from '../../../src/trainer/trainer.ts';
import { adamwSpec, chainCorpus, muonSpec } from '../../support/ort-models.ts';

const spec: LlamaSpec = {
  ...{
    architecture: 'llama',
    vocabulary: 90,
    width: 32,
    layers: 2,
    heads: 4,
    ffn: 48,
    context: 16,
  },
  ...{ keyValueHeads: 2, headSize: 8, normEpsilon: 1e-5, rope: { base: 10_000 }, tied: true },
  bias: { queryKeyValue: false, attentionOutput: false, feedforward: false },
  ...{ queryKeyNorm: false, deviation: 0.2 },
};
const base = initialParameters(spec, 1);
const numbers = new Map(
  modelLayout(spec).slots.map(({ name, offset, size }) => [
    name,
    base.subarray(offset, offset + size),
  ]),
);
const modelFor = (train: AdapterTrain) => {
  const adapter: LoraSpec = { rank: 4, alpha: 8, targets: 'all-linear', train };
  return loraModel(spec, adapter, 'q8');
};
const model = modelFor('alternate');
const [ofB, ofA] = turnsOf(model) as [{ from: number; to: number }, { from: number; to: number }];
const corpus = chainCorpus(600, 90);
const trainers: Trainer[] = [];

async function start(train: AdapterTrain, optimizer: OptimizerSpec = adamwSpec) {
  const own = modelFor(train);
  const both = modelFor('both');
  const { slots } = modelLayout(both);
  const drawn = initialParameters(both, 3);
  const frozen = async () =>
    Object.fromEntries([
      ...[...numbers].map(([name, values]) => [name, values.slice()]),
      ...slots.map(({ name, offset, size }) => [name, drawn.slice(offset, offset + size)]),
    ]);
  const data = { kind: 'tokens', shard: corpus, validation: corpus } as const;
  const setup = {
    model: own,
    frozen,
    optimizer,
    data,
    batch: 4,
    threads: 1,
    device: 'cpu',
  } as const;
  const trainer = await createTrainer(setup);
  trainers.push(trainer);
  return trainer;
}

afterEach(async () => {
  for (const trainer of trainers.splice(0)) await trainer.close();
});

type State = { readonly params: Float32Array; readonly moments: readonly Float32Array[] };

const play = async (trainer: Trainer, round: number, { params, moments }: State) =>
  trainer.train(
    { params, moments, round, steps: 5, firstStep: 5 * round, batchKey: [1, 2] },
    () => undefined,
    new AbortController().signal,
  );

const first: State = { params: initialParameters(model, 3), moments: [] };
const part = (values: Float32Array, { from, to }: { from: number; to: number }) =>
  Array.from(values.subarray(from, to));

it('lie by their turns: all B, then all A', () => {
  const { slots, size } = modelLayout(model);
  const isB = slots.map(({ name }) => name.includes('lora_B'));
  expect(isB).toEqual(isB.toSorted((a, b) => Number(b) - Number(a)));
  expect([ofB.from, ofB.to, ofA.to]).toEqual([0, ofA.from, size]);
  expect(turnsOf(modelFor('both'))).toEqual([]);
  expect(turnsOf(modelFor('b'))).toEqual([]);
});

describe.each([
  ['AdamW', { ...adamwSpec, weightDecay: 0.1 }],
  ['Muon', muonSpec],
] as const)('with %s', (_, optimizer) => {
  let trainer: Trainer;
  let rounds: readonly Awaited<ReturnType<typeof play>>[];
  const losses: number[] = [];
  beforeAll(async () => {
    trainer = await start('alternate', optimizer);
    const one = await play(trainer, 0, first);
    const two = await play(trainer, 1, one);
    rounds = [one, two, await play(trainer, 2, two)];
    for (const { params } of [first, one, two]) {
      losses.push(await trainer.evaluate(params, 'shard'));
    }
    await trainer.close();
    trainers.length = 0;
  });

  it('what rests keeps its bits, its moments and its count of steps; what moves has moved', () => {
    const states: readonly State[] = [first, ...rounds];
    rounds.forEach(({ params, moments }, round) => {
      const before = states[round]!;
      const [moving, resting] = round % 2 === 0 ? [ofB, ofA] : [ofA, ofB];
      expect(part(params, resting)).toEqual(part(before.params, resting));
      expect(part(params, moving)).not.toEqual(part(before.params, moving));
      const vectors = moments.slice(0, -1);
      vectors.forEach((moment, i) => {
        const old = before.moments[i] ?? new Float32Array(moment.length);
        expect(part(moment, resting)).toEqual(part(old, resting));
      });
    });
    expect(rounds.map(({ moments }) => Array.from(moments.at(-1)!))).toEqual([
      [5, 0],
      [5, 5],
      [10, 5],
    ]);
  });

  it('a round of B has the bits of training B alone: A counts neither in clipping nor anywhere else', async () => {
    const alone = await start('b', optimizer);
    const params = new Float32Array(ofB.to);
    const once = await play(alone, 0, { params, moments: [] });
    expect(part(rounds[0]!.params, ofB)).toEqual(Array.from(once.params));
    expect(Array.from(rounds[0]!.losses)).toEqual(Array.from(once.losses));
  });

  it('the loss falls in rounds of either', () => {
    const [before, b, a] = losses;
    expect(b).toBeLessThan(before!);
    expect(a).toBeLessThan(b!);
  });
});
