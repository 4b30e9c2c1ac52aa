/** Training in half precision: what is rounded and what is not, how far gradients are from those in f32, and the scaling of the loss. */

import { philox } from 'nostrain/base';
import {
  type AnyModel,
  type CustomModel,
  compileTraining,
  createGraph,
  dataFormOf,
  holdData,
  initialParameters,
  loraModel,
  modelOf,
  type TrainerData,
} from 'nostrain/model';
import type { Arithmetic, OptimizerSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { Half } from '../../src/model/graph/lower.ts';
import {
  gemm,
  matmul,
  mul,
  reduceMean,
  reshape,
  square,
  sub,
  sumTo,
} from '../../src/model/graph/verbs.ts';
import { narrow, partsOf } from '../../src/model/precision.ts';
import { halfToNumber, numberToHalf } from '../../src/tensor/dtype.ts';
import { adamwSpec, constantRate, muonSpec, smallGpt, tinyLlama } from '../support/ort-models.ts';
import { load, loadGraph, type TestTensor } from '../support/ort-run.ts';

/** Uniform in -1 to 1. */
const draw = (count: number, stream: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => philox([5, stream], i, 0, 0, 0)[0] / 2 ** 31 - 1);

const f32 = (shape: readonly number[], elements: ArrayLike<number>): TestTensor => ({
  ...{ dtype: 'f32', shape, elements },
});

/** To the nearest, ties to even. */
function toBfloat(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  const rounded = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000;
  return new Float32Array(Uint32Array.of(rounded).buffer)[0]!;
}

const round: Readonly<Record<Half, (value: number) => number>> = {
  f16: (value) => halfToNumber(numberToHalf(value)),
  bf16: toBfloat,
};

describe.each(['f16', 'bf16'] as const)('products in %s', (half) => {
  const [a, b, c] = [draw(4 * 6, 1), draw(6 * 5, 2), draw(5, 3)];
  const near = round[half];
  const exact = (row: number, column: number) =>
    [0, 1, 2, 3, 4, 5].reduce(
      (sum, k) => sum + near(a[row * 6 + k]!) * near(b[k * 5 + column]!),
      0,
    );

  it('round operands and results, and neither what is added nor sums over rows', async () => {
    const graph = createGraph();
    const [left, right] = [
      graph.input('a', { dtype: 'f32', shape: [4, 6] }),
      graph.input('b', { dtype: 'f32', shape: [6, 5] }),
    ];
    const bias = graph.input('c', { dtype: 'f32', shape: [5] });
    graph.products = half;
    graph.output('plain', matmul(left, right));
    graph.output('added', gemm(left, right, { c: bias, beta: 3 }));
    graph.output('sums', sumTo(left, [6]));
    graph.products = 'f32';
    graph.output('after', matmul(left, right));
    const run = await loadGraph(graph);
    const results = await run({ a: f32([4, 6], a), b: f32([6, 5], b), c: f32([5], c) });
    for (let i = 0; i < 20; i++) {
      const product = near(exact(Math.floor(i / 5), i % 5));
      expect(results.plain![i]).toBe(product);
      expect(results.added![i]).toBe(Math.fround(product + Math.fround(3 * c[i % 5]!)));
      expect(results.after![i]).not.toBe(product);
    }
    for (let i = 0; i < 6; i++) {
      const sum = [0, 1, 2, 3].reduce((total, row) => total + a[row * 6 + i]!, 0);
      expect(results.sums![i]).toBeCloseTo(sum, 6);
    }
  });
});

const blocks = { width: 16, layers: 1, heads: 2, ffn: 32, patch: 4 } as const;
const llama = { ...tinyLlama, width: 32, headSize: 8, ffn: 32 };
const adapter = { rank: 2, alpha: 4, targets: 'all-linear' } as const;
const series = {
  context: 16,
  horizon: 4,
  channels: 1,
  error: 'squared',
  scaling: 'window',
} as const;
const models: Readonly<Record<string, AnyModel>> = {
  'a GPT': smallGpt,
  'a Llama': llama,
  'a Llama with a large vocabulary': { ...llama, vocabulary: 3000, tied: false },
  'adapters on a Llama in 4 bits': loraModel(llama, adapter, 'q4'),
  'an MLP': { architecture: 'mlp', features: 3, hidden: [8, 8] },
  'a forecaster': { architecture: 'forecaster', ...series, ...blocks },
  'a vision transformer': {
    ...{ architecture: 'vit', pixels: 8, channels: 1, classes: 4, ...blocks },
  },
};

const BATCH = 4;

function dataFor(model: AnyModel): TrainerData {
  const form = dataFormOf(model);
  if (form.kind === 'tokens') {
    const tokens = Array.from({ length: 200 }, (_, i) => (i * i + 3 * i) % form.vocabulary);
    const shard = form.vocabulary > 256 ? Int32Array.from(tokens) : Uint8Array.from(tokens);
    return { kind: 'tokens', shard, validation: shard } as TrainerData;
  }
  if (form.kind === 'rows') {
    const rows = { inputs: draw(8 * form.features, 4), targets: draw(8, 5) };
    return { kind: 'regression', features: form.features, ...rows, validation: rows };
  }
  if (form.kind === 'series') {
    const part = { values: draw(60, 6), starts: Int32Array.of(0, 1, 2, 3) };
    return { kind: 'series', channels: 1, shard: part, validation: part };
  }
  const pixels = Uint8Array.from(draw(BATCH * 64, 7), (value) => 127 + 120 * value);
  const part = { pixels, labels: Int32Array.of(0, 1, 2, 3) };
  return { kind: 'images', shard: part, validation: part };
}

const openStored = () => {
  throw new Error('nothing is stored');
};

/** Data, rows and the frozen tensors of a model. */
function feedsOf(model: AnyModel): Record<string, TestTensor> {
  const rows = { dtype: 'i32', shape: [BATCH], elements: [0, 1, 2, 3] } as const;
  const feeds: Record<string, TestTensor> = { rows };
  const { shard } = holdData(dataFormOf(model), dataFor(model), { model: '', openStored }).feeds;
  if (shard?.kind !== 'feeds') throw new Error('feeds expected');
  for (const [name, { elements, shape }] of Object.entries(shard.feeds)) {
    const dtype =
      elements instanceof Float32Array ? 'f32' : elements instanceof Int32Array ? 'i32' : 'u8';
    feeds[name] = { dtype, shape, elements: elements as Float32Array };
  }
  for (const [i, tensor] of (modelOf(model).frozen ?? []).entries()) {
    const size = tensor.shape.reduce((product, dim) => product * dim, 1);
    const held = narrow(draw(size, 20 + i), tensor);
    for (const [k, part] of partsOf(tensor).entries()) {
      feeds[part.name] = { dtype: part.dtype, shape: part.shape, elements: held[k]! };
    }
  }
  return feeds;
}

/** Plain descent at a rate of 1: a step moves parameters by the gradient. */
const descent: OptimizerSpec = { optimizer: 'sgd', clipNorm: 0, schedule: constantRate(1) };

async function gradientOf(model: AnyModel, precision: Arithmetic, recompute = false) {
  const program = compileTraining(model, descent, BATCH, { precision, recompute });
  const params = initialParameters(model, 1).map((value, i) => value + 0.02 * Math.sin(i * i));
  const state = Object.fromEntries(
    program.state.map(({ name, first }) => {
      const elements = name === 'params' ? params : first();
      return [name, f32([elements.length], elements)];
    }),
  );
  const run = await load(program.step());
  const after = await run({ ...feedsOf(model), ...state, rates: f32([1], [1]) });
  expect(after.loss![0]).toBeGreaterThan(0);
  return params.map((value, i) => value - after['params.next']![i]!);
}

const lengthOf = (vector: Float32Array) =>
  Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
const apart = (a: Float32Array, b: Float32Array) =>
  lengthOf(a.map((value, i) => value - b[i]!)) / lengthOf(a);

describe.each(Object.keys(models))('the gradient of %s', (name) => {
  it('is that of f32 but for roundings, and the same where layers are computed again', async () => {
    const model = models[name]!;
    const exact = await gradientOf(model, 'f32');
    const rounded = await gradientOf(model, 'f16');
    const error = {
      f16: apart(exact, rounded),
      bf16: apart(exact, await gradientOf(model, 'bf16')),
    };
    expect(error.f16).toBeLessThan(4e-3);
    expect(error.bf16).toBeLessThan(3e-2);
    expect(error.bf16).toBeGreaterThan(2 * error.f16);
    expect(error.f16).toBeGreaterThan(1e-5);
    if (dataFormOf(model).kind === 'rows') return;
    expect(apart(rounded, await gradientOf(model, 'f16', true))).toBeLessThan(1e-4);
  });
});

describe('the scale of the loss', () => {
  /** A loss whose gradient is `slope` times a number near 1 through a product, and moves two parameters. */
  const steep = (slope: number): CustomModel => ({
    architecture: 'own',
    data: { kind: 'rows', features: 2 },
    tensors: [{ name: 'w', shape: [2, 1], start: 'zeros', abreast: 1 }],
    losses: (weights, { inputs, targets }) => {
      const guess = matmul(inputs, weights('w'));
      return mul(reduceMean(square(sub(guess, reshape(targets, [BATCH, 1]))), [1]), slope);
    },
    predict: (weights, inputs) => matmul(inputs, weights('w')),
  });

  async function step(model: CustomModel, optimizer: OptimizerSpec, scaling: readonly number[]) {
    const program = compileTraining(model, optimizer, BATCH, { precision: 'f16' });
    const { moments, rateCount, rates } = program.optimizer;
    const vector = (stream: number) => f32([2], draw(2, stream));
    const first = Object.fromEntries(['params', ...moments].map((m, i) => [m, vector(30 + i)]));
    const run = await load(program.step());
    const after = await run({
      ...{ ...feedsOf(model), ...first, scaling: f32([2], scaling) },
      rates: f32([rateCount], rates(0, 0)),
    });
    return { first, after };
  }

  it.each([adamwSpec, muonSpec])(
    'a step that is not finite is not taken, and halves it',
    async (optimizer) => {
      const { first, after } = await step(steep(1), optimizer, [2 ** 24, 17]);
      for (const [name, { elements }] of Object.entries(first)) {
        expect(Array.from(after[`${name}.next`]!)).toEqual(Array.from(elements));
      }
      expect(Array.from(after['scaling.next']!)).toEqual([2 ** 23, 0]);
      expect(Number.isFinite(after.loss![0])).toBe(true);
    },
  );

  it('doubles after 2,000 good steps in a row', async () => {
    const scalingAfter = async (count: number) =>
      Array.from((await step(steep(1), adamwSpec, [1024, count])).after['scaling.next']!);
    expect(await scalingAfter(1998)).toEqual([1024, 1999]);
    expect(await scalingAfter(1999)).toEqual([2048, 0]);
  });

  it('keeps gradients that f16 has no numbers for', async () => {
    const moved = async (scaling: readonly number[]) => {
      const { first, after } = await step(
        steep(1e-9),
        { ...descent, schedule: constantRate(1e9) },
        scaling,
      );
      return Array.from(after['params.next']!, (value, i) => value - first.params!.elements[i]!);
    };
    expect(await moved([1, 0])).toEqual([0, 0]);
    const large = await moved([2 ** 24, 0]);
    const larger = await moved([2 ** 28, 0]);
    for (const [i, value] of large.entries()) {
      expect(Math.abs(value)).toBeGreaterThan(0.01);
      expect(larger[i]! / value).toBeCloseTo(1, 2);
    }
  });
});
