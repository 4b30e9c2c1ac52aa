/** A frozen base in few bits: what its numbers lose, and that gradients by adapters follow from the numbers that are left. */

import { philox } from 'nostrain/base';
import {
  type CompileOptions,
  compileTraining,
  createGraph,
  type FrozenTensor,
  initialParameters,
  type LoraSpec,
  loraModel,
  lower,
  modelLayout,
} from 'nostrain/model';
import type { Gpt2Spec, LlamaSpec, Precision } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { mul } from '../../src/model/graph/verbs.ts';
import { narrow, openFrozen, partsOf } from '../../src/model/precision.ts';
import { dequantize, quantizedFormats } from '../../src/pretrained/weights.ts';
import { numberToHalf } from '../../src/tensor/dtype.ts';
import { adamwSpec, chainCorpus, muonSpec } from '../support/ort-models.ts';
import { load, loadGraph, type TestTensor } from '../support/ort-run.ts';

const few = ['f16', 'q8', 'q4'] as const;

/** The parts of a tensor as inputs of a graph. */
function feedsOf(tensor: FrozenTensor, values: Float32Array): Record<string, TestTensor> {
  const held = narrow(values, tensor);
  return Object.fromEntries(
    partsOf(tensor).map(({ name, dtype, shape }, i) => [
      name,
      { dtype, shape, elements: held[i]! },
    ]),
  );
}

/** What a graph reads of a tensor in few bits. */
async function widened(tensor: FrozenTensor, values: Float32Array): Promise<Float64Array> {
  const graph = createGraph();
  graph.output('wide', mul(openFrozen(graph, tensor, 'f32'), 1));
  const { wide } = await (await loadGraph(graph))(feedsOf(tensor, values));
  return wide!;
}

const draw = (count: number, stream: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => philox([3, stream], i, 0, 0, 0)[0] / 2 ** 31 - 1);

describe('numbers in few bits', () => {
  const values = draw(8 * 96, 1);
  const row = values.map((value, i) => value * 2 ** -Math.floor(i / 96));

  test.each([
    ['f16', 2 ** -11],
    ['q8', 0.5 / 127 + 2 ** -11],
    ['q4', 1 / 8 + 2 ** -10],
  ] as const)(
    '%s: none is further away than %d of the largest in its block',
    async (precision, most) => {
      const wide = await widened({ name: 'w', shape: [8, 96], precision }, row);
      for (let at = 0; at < row.length; at += 32) {
        const block = row.subarray(at, at + 32);
        const largest = Math.max(...block.map(Math.abs));
        block.forEach((value, i) => {
          expect(Math.abs(wide[at + i]! - value)).toBeLessThanOrEqual(most * largest);
        });
      }
    },
  );

  test.each([
    ['Q8_0', 8, 'q8'],
    ['Q4_1', 3, 'q4'],
    ['Q4_0', 2, 'q4'],
  ] as const)('from blocks of %s are those of the file', async (_, type, precision) => {
    const format = quantizedFormats.get(type)!;
    const blocks = 40;
    const bytes = new Uint8Array(blocks * format.bytes);
    for (let block = 0; block < blocks; block++) {
      const view = new DataView(bytes.buffer, block * format.bytes, format.bytes);
      const drawn = draw(40, 10 * type + block);
      drawn.forEach((value, i) => {
        if (i < format.bytes) view.setUint8(i, Math.floor(128 + 127 * value));
      });
      view.setUint16(0, numberToHalf(0.01 + 0.1 * Math.abs(drawn[0]!)), true);
      if (type === 3) view.setUint16(2, numberToHalf(-drawn[1]!), true);
      // as llama.cpp writes them: the furthest number of a block is at the end of its whole numbers
      if (type === 8) {
        for (let i = 2; i < format.bytes; i++) view.setInt8(i, Math.max(-127, view.getInt8(i)));
        view.setInt8(2 + (block % 32), block % 2 === 0 ? 127 : -127);
      } else view.setUint8(type === 3 ? 4 : 2, 0xf0);
    }
    const numbers = dequantize(format, bytes);
    const wide = await widened({ name: 'w', shape: [blocks, 32], precision }, numbers);
    expect(wide).toEqual(Float64Array.from(numbers));
  });

  test('all equal, all zero, too large for a half or nearly nothing, stay finite', async () => {
    const odd = Float32Array.from({ length: 4 * 32 }, (_, i) => [0.7, 0, 1e9, 1e-9][i >> 5]!);
    for (const precision of ['q8', 'q4'] as const) {
      const wide = await widened({ name: 'w', shape: [4, 32], precision }, odd);
      expect(wide.every(Number.isFinite)).toBe(true);
      expect(wide[40]).toBe(0);
      expect(wide[0]).toBeCloseTo(0.7, 3);
    }
  });

  test('rows that are no whole blocks are held in f16', () => {
    const [only, ...others] = partsOf({ name: 'w', shape: [3, 20], precision: 'q4' });
    expect([only.dtype, others]).toEqual(['f16', []]);
  });
});

const sizes = { vocabulary: 300, width: 64, layers: 2, heads: 4, ffn: 96, context: 10 };
const llama: LlamaSpec = {
  ...sizes,
  architecture: 'llama',
  ...{ keyValueHeads: 2, headSize: 16, normEpsilon: 1e-5, rope: { base: 10_000 }, tied: true },
  bias: { queryKeyValue: true, attentionOutput: false, feedforward: false },
  ...{ queryKeyNorm: true, deviation: 0.1 },
};
const gpt2: Gpt2Spec = {
  ...sizes,
  architecture: 'gpt2',
  ...{ positions: 12, normEpsilon: 1e-5, activation: 'gelu-tanh', tied: false, deviation: 0.1 },
};
const adapter: LoraSpec = { rank: 4, alpha: 8, targets: 'all-linear' };
const batch = 4;
const corpus = Int32Array.from(chainCorpus(400, 200), (token) => token + 90);

const norm = (values: ArrayLike<number>) =>
  Math.sqrt(Array.from(values).reduce((sum, value) => sum + value * value, 0));
const distance = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  norm(Array.from(a, (value, i) => value - b[i]!)) / norm(b);

describe.each([llama, gpt2])('adapters of $architecture', (spec) => {
  const base = initialParameters(spec, 1);
  const { slots } = modelLayout(spec);
  const numbers = (name: string) => {
    const { offset, size } = slots.find((slot) => slot.name === name)!;
    return base.subarray(offset, offset + size);
  };
  const params = draw(modelLayout(loraModel(spec, adapter)).size, 2).map((value) => value / 5);
  const data: Readonly<Record<string, TestTensor>> = {
    params: { dtype: 'f32', shape: [params.length], elements: params },
    corpus: { dtype: 'i32', shape: [corpus.length], elements: corpus },
    rows: { dtype: 'i32', shape: [batch], elements: [5, 300, 77, 150] },
  };
  const frozenFor = (precision: Precision) => loraModel(spec, adapter, precision).frozen!;
  const gradient = async (
    precision: Precision,
    options: CompileOptions = {},
    read: (name: string) => Float32Array = numbers,
  ) => {
    const program = compileTraining(loraModel(spec, adapter, precision), adamwSpec, batch, options);
    const feeds = frozenFor(precision).map((tensor) => feedsOf(tensor, read(tensor.name)));
    return (await load(program.gradient()))(Object.assign({ ...data }, ...feeds));
  };
  /** The base as it is when it has been in few bits. */
  const lossy = async (precision: Precision) => {
    const wide = await Promise.all(
      frozenFor(precision).map(async (tensor) => {
        const values = await widened(tensor, numbers(tensor.name));
        return [tensor.name, Float32Array.from(values)] as const;
      }),
    );
    return new Map(wide);
  };

  test.each([
    ['f16', 2e-3, 1e-4],
    ['q8', 0.03, 2e-3],
    ['q4', 0.3, 0.03],
  ] as const)(
    'in %s: the gradient moves by less than %d, the loss by less than %d',
    async (precision, byGradient, byLoss) => {
      const [exact, own] = [await gradient('f32'), await gradient(precision)];
      expect(distance(own.gradient!, exact.gradient!)).toBeLessThan(byGradient);
      expect(Math.abs(own.loss![0]! - exact.loss![0]!)).toBeLessThan(byLoss * exact.loss![0]!);
    },
  );

  test.each(few)('in %s have the gradient of the numbers that are left', async (precision) => {
    const left = await lossy(precision);
    const exact = await gradient('f32', {}, (name) => left.get(name)!);
    const own = await gradient(precision);
    expect(distance(own.gradient!, exact.gradient!)).toBeLessThan(1e-5);
    expect(own.loss![0]).toBeCloseTo(exact.loss![0]!, 5);
  });

  test.each(few)(
    'in %s recompute layers to the same bits, and accumulate up to rounding',
    async (precision) => {
      const once = await gradient(precision);
      expect(await gradient(precision, { recompute: true })).toEqual(once);
      const parted = await gradient(precision, { recompute: true, accumulate: 2 });
      expect(distance(parted.gradient!, once.gradient!)).toBeLessThan(1e-5);
    },
  );

  test('never keep an f32 copy: each is made for one reader', () => {
    const graph = createGraph();
    const model = loraModel(spec, adapter, 'q4');
    const tensors = new Map(
      model.frozen!.map((one) => [one.name, openFrozen(graph, one, 'f32')] as const),
    );
    for (const { name, shape } of model.tensors) {
      tensors.set(name, graph.input(name, { dtype: 'f32', shape }));
    }
    const tokens = graph.input('tokens', { dtype: 'i32', shape: [1, spec.context] });
    graph.output(
      'logits',
      model.predict((name) => tensors.get(name)!, tokens),
    );
    const { nodes } = lower(graph, 'test', { target: 'cpu' });
    const wide = nodes.filter(({ type }) => type === 'DequantizeLinear');
    expect(wide.length).toBeGreaterThanOrEqual(10);
    for (const { outputs } of wide) {
      const readers = nodes.filter(({ inputs }) => inputs.includes(outputs[0]!));
      expect(readers).toHaveLength(1);
    }
  });

  test('learn on a base in 4 bits by Muon too', async () => {
    const program = compileTraining(loraModel(spec, adapter, 'q4'), muonSpec, batch);
    const { moments } = program.optimizer;
    const zeros = {
      dtype: 'f32',
      shape: [params.length],
      elements: new Float32Array(params.length),
    } as const;
    const feeds = frozenFor('q4').map((tensor) => feedsOf(tensor, numbers(tensor.name)));
    const steps = 12;
    const rates = Array.from({ length: steps }, (_, i) => program.optimizer.rates(i, i)).flat();
    const results = await (await load(program.loop()))(
      Object.assign(
        {
          ...data,
          steps: { dtype: 'i64', shape: [], elements: [steps] },
          rates: { dtype: 'f32', shape: [steps, program.optimizer.rateCount], elements: rates },
          rows: {
            dtype: 'i32',
            shape: [steps, batch],
            elements: Array(steps).fill([5, 300, 77, 150]).flat(),
          },
        },
        Object.fromEntries(moments.map((name) => [name, zeros])),
        ...feeds,
      ),
    );
    expect(program.optimizer.whole).toHaveLength(
      modelLayout(loraModel(spec, adapter)).slots.length,
    );
    expect(results.losses!.at(-1)).toBeLessThan(results.losses![0]! - 0.1);
  });
});
