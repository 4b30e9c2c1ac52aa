/** A model on a frozen base: low-rank additions to two layers of a decoder, whose gradients follow from those of the base. */

import {
  type CustomModel,
  compileTraining,
  initialParameters,
  llama,
  modelLayout,
  type TensorSpec,
} from 'nostrain/model';
import type { LlamaSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  decoderLogits,
  decoderLosses,
  type Layers,
  plainLayers,
} from '../../src/model/architectures/decoder.ts';
import { add, gemm } from '../../src/model/graph/verbs.ts';
import { adamwSpec, chainCorpus, tinyLlama } from '../support/ort-models.ts';
import { load } from '../support/ort-run.ts';

const base: LlamaSpec = {
  ...tinyLlama,
  ...{ vocabulary: 40, heads: 3, keyValueHeads: 1, headSize: 4, context: 8, deviation: 0.3 },
  bias: { queryKeyValue: false, attentionOutput: false, feedforward: false },
  queryKeyNorm: false,
};
const RANK = 2;
const decoder = llama(base);
const adapted = decoder.linears.filter(({ name }) => /[qv]_proj$/.test(name));

const tensors: readonly TensorSpec[] = adapted.flatMap(({ name, inputs, outputs }) => [
  { name: `${name}.down`, shape: [RANK, inputs], start: { deviation: 0.3 } },
  { name: `${name}.up`, shape: [outputs, RANK], start: 'zeros' as const },
]);
const layers = (weights: Layers['weights']): Layers => {
  const plain = plainLayers(weights);
  return {
    weights,
    linear(layer, rows) {
      const out = plain.linear(layer, rows);
      if (!adapted.some(({ name }) => name === layer.name)) return out;
      const low = gemm(rows, weights(`${layer.name}.down`), { transB: true });
      return add(out, gemm(low, weights(`${layer.name}.up`), { transB: true }));
    },
  };
};
const model: CustomModel = {
  architecture: 'own',
  data: { kind: 'tokens', vocabulary: base.vocabulary, context: base.context },
  tensors,
  frozen: decoder.tensors,
  predict: (weights, inputs) => decoderLogits(decoder, layers(weights), inputs),
  losses: (weights, batch) => decoderLosses(decoder, layers(weights), batch),
};

const corpus = chainCorpus(100, base.vocabulary);
const data = {
  corpus: { dtype: 'u8', shape: [corpus.length], elements: corpus },
  rows: { dtype: 'i32', shape: [2], elements: [3, 50] },
} as const;
const layout = modelLayout(base);
const weights = initialParameters(base, 1);
const tensor = (values: ArrayLike<number>, shape: readonly number[]) =>
  ({ dtype: 'f32', shape, elements: values }) as const;
const frozen = Object.fromEntries(
  layout.slots.map(({ name, shape, offset, size }) => [
    name,
    tensor(weights.subarray(offset, offset + size), shape),
  ]),
);

describe('low-rank additions to a frozen base', async () => {
  const program = compileTraining(model, adamwSpec, 2);
  const params = initialParameters(model, 5);
  const flat = tensor(params, [params.length]);
  const own = await (await load(program.gradient()))({ ...data, ...frozen, params: flat });
  const whole = compileTraining(base, adamwSpec, 2);
  const full = await (await load(whole.gradient()))({
    ...data,
    params: tensor(weights, [layout.size]),
  });

  test('are all that is trained, and the base is data', () => {
    expect(program.layout.size).toBe(2 * RANK * (12 + 12 + 12 + 4));
  });

  test('start as the base itself', () => {
    expect(own.loss![0]).toBeCloseTo(full.loss![0]!, 6);
  });

  test('have the gradient that the base has, as far as it goes through them', () => {
    const { slots } = program.layout;
    const read = (from: ArrayLike<number>, name: string, within = slots) => {
      const { offset, shape } = within.find((slot) => slot.name === name)!;
      return (row: number, column: number) => from[offset + row * shape[1]! + column]!;
    };
    for (const { name, inputs, outputs } of adapted) {
      const down = read(params, `${name}.down`);
      const slope = read(full.gradient!, `${name}.weight`, layout.slots);
      const up = read(own.gradient!, `${name}.up`);
      for (let row = 0; row < outputs; row++) {
        for (let r = 0; r < RANK; r++) {
          let expected = 0;
          for (let i = 0; i < inputs; i++) expected += slope(row, i) * down(r, i);
          expect(up(row, r)).toBeCloseTo(expected, 6);
        }
      }
    }
  });

  test('learn in a loop that never touches the base', async () => {
    const run = await load(program.loop());
    const { rateCount } = program.optimizer;
    const rates = Array.from({ length: 4 }, (_, t) => [...program.optimizer.rates(t, t)]).flat();
    const zeros = tensor(new Float32Array(params.length), [params.length]);
    const { losses } = await run({
      ...frozen,
      corpus: data.corpus,
      steps: { dtype: 'i64', shape: [], elements: [4] },
      rates: tensor(rates, [4, rateCount]),
      rows: { dtype: 'i32', shape: [4, 2], elements: [3, 50, 3, 50, 3, 50, 3, 50] },
      ...{ params: flat, first: zeros, second: zeros },
    });
    expect(losses![3]).toBeLessThan(losses![0]!);
  });
});
