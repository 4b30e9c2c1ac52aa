/** One training description, many ways to run it: all must give the same bits. */

import { deriveKey, sha256Hex } from 'nostrain/base';
import { drawRows, initialParameters } from 'nostrain/model';
import type { OptimizerSpec } from 'nostrain/run';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { describe, expect, test } from 'vitest';
import { compileTraining } from '../../src/model/training-program.ts';
import { adamwSpec, chainCorpus, constantRate, muonSpec, smallGpt } from '../support/ort-models.ts';
import { load } from '../support/ort-run.ts';

const STEPS = 6;
const batch = 8;
const corpus = chainCorpus(3000, smallGpt.vocabulary);
const bound = corpus.length - smallGpt.context;
const rows = drawRows({ key: deriveKey('t'), round: 0, firstStep: 0, steps: STEPS, batch, bound });

type State = Readonly<Record<string, Float32Array>>;

const session = (model: Uint8Array, threads: number) =>
  InferenceSession.create(model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: threads,
    executionMode: 'sequential',
    graphOptimizationLevel: 'disabled',
    logSeverityLevel: 3,
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });

async function call(s: InferenceSession, state: State, feeds: Record<string, Tensor>) {
  const names = Object.keys(state);
  const vectors = names.map((name) => [name, new Tensor('float32', state[name]!)] as const);
  const results = await s.run({
    ...Object.fromEntries(vectors),
    ...feeds,
    corpus: new Tensor('uint8', corpus),
  });
  const floats = (name: string) => Float32Array.from(results[name]!.data as Float32Array);
  return {
    state: Object.fromEntries(names.map((name) => [name, floats(`${name}.next`)])),
    losses: floats('losses' in results ? 'losses' : 'loss'),
  };
}

/** The models for an optimizer, where they start, and the rates of all steps. */
function prepare(spec: OptimizerSpec) {
  const program = compileTraining(smallGpt, spec, batch);
  const { moments, rateCount } = program.optimizer;
  const rates = new Float32Array(STEPS * rateCount);
  for (let t = 0; t < STEPS; t++) rates.set(program.optimizer.rates(t, t), t * rateCount);
  const first: State = {
    params: initialParameters(smallGpt, 1),
    ...Object.fromEntries(moments.map((name) => [name, new Float32Array(program.layout.size)])),
  };
  return { program, first, rates, rateCount };
}

type Prepared = ReturnType<typeof prepare>;

/** Losses, and one hash per vector: comparing megabytes number by number would take longer than training. */
const fingerprint = (state: State, losses: readonly number[]) => ({
  losses,
  digests: Object.values(state).map((vector) => sha256Hex(new Uint8Array(vector.buffer))),
});

/** Runs all steps in slices of the given lengths. */
async function loop(
  { program, first, rates, rateCount }: Prepared,
  threads: number,
  slices: readonly number[],
) {
  const s = await session(program.loop(), threads);
  let state = first;
  let from = 0;
  const losses: number[] = [];
  for (const count of slices) {
    const part = await call(s, state, {
      steps: new Tensor('int64', BigInt64Array.of(BigInt(count)), []),
      rates: new Tensor('float32', rates.slice(from * rateCount, (from + count) * rateCount), [
        count,
        rateCount,
      ]),
      rows: new Tensor('int32', rows.slice(from * batch, (from + count) * batch), [count, batch]),
    });
    state = part.state;
    losses.push(...part.losses);
    from += count;
  }
  return fingerprint(state, losses);
}

async function stepByStep({ program, first, rates, rateCount }: Prepared, threads: number) {
  const s = await session(program.step(), threads);
  let state = first;
  const losses: number[] = [];
  for (let t = 0; t < STEPS; t++) {
    const part = await call(s, state, {
      rates: new Tensor('float32', rates.slice(t * rateCount, (t + 1) * rateCount)),
      rows: new Tensor('int32', rows.slice(t * batch, (t + 1) * batch)),
    });
    state = part.state;
    losses.push(...part.losses);
  }
  return fingerprint(state, losses);
}

describe.each([adamwSpec, muonSpec])('$optimizer: the same bits', async (spec) => {
  const prepared = prepare(spec);
  const expected = await loop(prepared, 1, [STEPS]);

  test('again', async () => {
    expect(await loop(prepared, 1, [STEPS])).toEqual(expected);
  });
  test('step by step instead of in a Loop', async () => {
    expect(await stepByStep(prepared, 1)).toEqual(expected);
  });
  test('in slices', async () => {
    expect(await loop(prepared, 1, [1, 3, 2])).toEqual(expected);
  });
  for (const threads of [2, 3]) {
    test(`on ${threads} threads`, async () => {
      expect(await loop(prepared, threads, [STEPS])).toEqual(expected);
    });
  }
  test('and they learn', () => {
    expect(expected.losses[STEPS - 1]).toBeLessThan(expected.losses[0]! - 0.3);
  });
});

describe('regression in f64', () => {
  const inputs = [1, 2, -1, 0.5, 0, 3];
  const targets = [1, -2, 0.5];
  const data = {
    inputs: { dtype: 'f64', shape: [3, 2], elements: inputs },
    targets: { dtype: 'f64', shape: [3], elements: targets },
    rows: { dtype: 'i32', shape: [1, 2], elements: [2, 0] },
  } as const;
  const sgd = { optimizer: 'sgd', clipNorm: 0, schedule: constantRate(0.1) } as const;

  test('linear: one step by hand', async () => {
    const spec = { architecture: 'linear', features: 2 } as const;
    const run = await load(compileTraining(spec, sgd, 2, { dtype: 'f64' }).loop());
    const [bias, w0, w1] = [0.25, 0.5, -1];
    const results = await run({
      ...data,
      steps: { dtype: 'i64', shape: [], elements: [1] },
      rates: { dtype: 'f64', shape: [1, 1], elements: [0.1] },
      params: { dtype: 'f64', shape: [3], elements: [bias, w0, w1] },
    });
    const errors = [2, 0].map((row) => {
      const [x0, x1] = [inputs[2 * row]!, inputs[2 * row + 1]!];
      return { x0, x1, error: bias + w0 * x0 + w1 * x1 - targets[row]! };
    });
    const slope = (of: (e: (typeof errors)[number]) => number) =>
      errors.reduce((sum, e) => sum + (2 * e.error * of(e)) / 2, 0);
    const expected = [
      bias - 0.1 * slope(() => 1),
      w0 - 0.1 * slope(({ x0 }) => x0),
      w1 - 0.1 * slope(({ x1 }) => x1),
    ];
    expected.forEach((value, i) => {
      expect(results['params.next']![i]).toBeCloseTo(value, 14);
    });
    const loss = errors.reduce((sum, { error }) => sum + error ** 2, 0) / 2;
    expect(results.losses![0]).toBeCloseTo(loss, 14);
  });

  test('mlp: the gradient of every parameter', async () => {
    const spec = { architecture: 'mlp', features: 2, hidden: [3, 2] } as const;
    const program = compileTraining(spec, sgd, 2, { dtype: 'f64' });
    const params = Float64Array.from(
      initialParameters(spec, 1),
      (value, i) => value + 0.1 * (i % 3),
    );
    const run = await load(program.gradient());
    const at = async (values: Float64Array) =>
      await run({
        ...data,
        rows: { dtype: 'i32', shape: [2], elements: [2, 0] },
        params: { dtype: 'f64', shape: [values.length], elements: values },
      });
    const { gradient } = await at(params);
    for (let i = 0; i < params.length; i++) {
      const [up, down] = [1e-5, -1e-5].map((shift) =>
        at(params.map((value, j) => (i === j ? value + shift : value))),
      );
      const difference = ((await up!).loss![0]! - (await down!).loss![0]!) / 2e-5;
      expect(Math.abs(gradient![i]! - difference)).toBeLessThan(1e-9);
    }
  });
});
