/** What saves memory while training changes nothing else: recomputed layers, micro-batches, logits in slices. */

import {
  type CompileOptions,
  compileTraining,
  createGraph,
  gradients,
  initialParameters,
  llama as llamaDecoder,
  modelOf,
  sizeOf,
  type Value,
} from 'nostrain/model';
import type { Gpt2Spec, LlamaSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  crossEntropy,
  gemm,
  mul,
  reduceSum,
  slicedCrossEntropy,
  square,
} from '../../src/model/graph/verbs.ts';
import { norm } from '../support/decoder-cases.ts';
import { adamwSpec, chainCorpus, tinyGpt2, tinyLlama } from '../support/ort-models.ts';
import { load, loadGraph } from '../support/ort-run.ts';

const sizes = { vocabulary: 300, width: 16, layers: 3, heads: 4, ffn: 24, context: 10 };
const llama: LlamaSpec = {
  ...{ ...tinyLlama, ...sizes },
  ...{ keyValueHeads: 2, headSize: 4, deviation: 0.1 },
};
const gpt2: Gpt2Spec = { ...tinyGpt2, ...sizes, positions: 12, deviation: 0.1 };
const batch = 4;
const corpus = Int32Array.from(chainCorpus(400, 200), (token) => token + 90);

const gpt = { ...sizes, architecture: 'gpt' } as const;

describe.each([llama, gpt2, gpt])('$architecture', (spec) => {
  const params = initialParameters(spec, 1);
  const gradient = async (options: CompileOptions) => {
    const run = await load(compileTraining(spec, adamwSpec, batch, options).gradient());
    return await run({
      params: { dtype: 'f32', shape: [params.length], elements: params },
      corpus: { dtype: 'i32', shape: [corpus.length], elements: corpus },
      rows: { dtype: 'i32', shape: [batch], elements: [5, 300, 77, 150] },
    });
  };

  test('recomputed layers have the same bits', async () => {
    expect(await gradient({ recompute: true })).toEqual(await gradient({}));
    const sizeOf = (options: CompileOptions) =>
      compileTraining(spec, adamwSpec, batch, options).gradient().length;
    expect(sizeOf({ recompute: true })).toBeGreaterThan(1.1 * sizeOf({}));
  });

  test.each([2, 4])('%d micro-batches have the same mean up to rounding', async (accumulate) => {
    const whole = await gradient({});
    const cut = await gradient({ accumulate, recompute: true });
    expect(cut.loss![0]).toBeCloseTo(whole.loss![0]!, 5);
    const off = whole.gradient!.map((value, i) => value - cut.gradient![i]!);
    expect(norm(off) / norm(whole.gradient!)).toBeLessThan(1e-6);
  });

  test('a step with both takes the same way as one without', async () => {
    const step = async (options: CompileOptions) => {
      const program = compileTraining(spec, adamwSpec, batch, options);
      const run = await load(program.step());
      const vector = (elements: ArrayLike<number>) =>
        ({ dtype: 'f32', shape: [elements.length], elements }) as const;
      const zeros = vector(new Float32Array(params.length));
      return await run({
        params: vector(params),
        first: zeros,
        second: zeros,
        rates: vector(program.optimizer.rates(0, 0)),
        corpus: { dtype: 'i32', shape: [corpus.length], elements: corpus },
        rows: { dtype: 'i32', shape: [batch], elements: [5, 300, 77, 150] },
      });
    };
    const [plain, both] = [await step({}), await step({ accumulate: 2, recompute: true })];
    const off = plain['first.next']!.map((value, i) => value - both['first.next']![i]!);
    expect(norm(off) / norm(plain['first.next']!)).toBeLessThan(1e-6);
  });
});

test('a large vocabulary is never laid out for all tokens', async () => {
  const large: LlamaSpec = { ...llama, vocabulary: 50_000, width: 4, layers: 1, context: 100 };
  const [rows, tokens] = [2, 2 * large.context];
  const graph = createGraph();
  const tensors = new Map(
    llamaDecoder(large).tensors.map(({ name, shape }) => [
      name,
      graph.input(name, { dtype: 'f32', shape }),
    ]),
  );
  const window = { dtype: 'i32', shape: [rows, large.context] } as const;
  const batch = { inputs: graph.input('inputs', window), targets: graph.input('targets', window) };
  const losses = modelOf(large).losses((name) => tensors.get(name)!, batch);
  gradients(graph, reduceSum(losses), [...tensors.values()]);
  const sizes = graph.steps.flatMap(({ outputs }) => outputs.map(({ shape }) => sizeOf(shape)));
  expect(Math.max(...sizes)).toBe((tokens / 2) * large.vocabulary);

  // a micro-batch of half the tokens needs no slices
  const params = initialParameters(large, 1);
  const wide = Int32Array.from(chainCorpus(400, 200), (token) => 200 * token + 90);
  const gradient = async (accumulate: number) => {
    const run = await load(compileTraining(large, adamwSpec, rows, { accumulate }).gradient());
    return await run({
      params: { dtype: 'f32', shape: [params.length], elements: params },
      corpus: { dtype: 'i32', shape: [wide.length], elements: wide },
      rows: { dtype: 'i32', shape: [rows], elements: [5, 200] },
    });
  };
  const [sliced, whole] = [await gradient(1), await gradient(2)];
  expect(sliced.loss![0]).toBeCloseTo(whole.loss![0]!, 5);
  const off = whole.gradient!.map((value, i) => value - sliced.gradient![i]!);
  expect(norm(off) / norm(whole.gradient!)).toBeLessThan(1e-6);
});

test('a batch that does not divide is refused', () => {
  for (const accumulate of [3, 0, 1.5]) {
    expect(() => compileTraining(llama, adamwSpec, batch, { accumulate })).toThrow('micro-batches');
  }
});

test('sliced cross-entropy is cross-entropy', async () => {
  const [rows, width, vocabulary] = [7, 5, 300];
  const draws = (size: number, seed: number) =>
    Float32Array.from({ length: size }, (_, i) => Math.sin(seed + i * (seed + 1)));
  const run = async (losses: (x: Value, w: Value, t: Value) => Value) => {
    const graph = createGraph();
    const x = graph.input('x', { dtype: 'f32', shape: [rows, width] });
    const w = graph.input('w', { dtype: 'f32', shape: [vocabulary, width] });
    const t = graph.input('t', { dtype: 'i32', shape: [rows] });
    const each = losses(x, w, t);
    graph.output('losses', each);
    gradients(graph, reduceSum(mul(square(each), 0.1)), [x, w]).forEach((gradient, i) => {
      graph.output(`d${i}`, gradient);
    });
    const elements = Int32Array.from({ length: rows }, (_, i) => (i * 97) % vocabulary);
    return await (await loadGraph(graph))({
      x: { dtype: 'f32', shape: [rows, width], elements: draws(rows * width, 1) },
      w: { dtype: 'f32', shape: [vocabulary, width], elements: draws(vocabulary * width, 2) },
      t: { dtype: 'i32', shape: [rows], elements },
    });
  };
  const plain = await run((x, w, t) => crossEntropy(gemm(x, w, { transB: true }), t));
  for (const count of [1, 3, 7, 9]) {
    const sliced = await run((x, w, t) => slicedCrossEntropy(x, w, t, count));
    for (const name of ['losses', 'd0', 'd1']) {
      const off = plain[name]!.map((value, i) => value - sliced[name]![i]!);
      expect(norm(off) / norm(plain[name]!), name).toBeLessThan(1e-6);
    }
  }
});
