/** The GPT and AdamW against PyTorch in float64, from a stored fixture (test/vectors/make_gpt_gradient.py). */

import { compileTraining } from 'nostrain/model';
import type { AdamWSpec, GptSpec } from 'nostrain/run';
import type { Layout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { createDraw, error, norm } from '../../support/decoder-cases.ts';
import { constantRate } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly spec: GptSpec;
  readonly seed: number;
  readonly scale: number;
  readonly batch: number;
  readonly loss: number;
  readonly gradientNorm: number;
}

interface Fixture {
  readonly small: Case & {
    readonly tensors: readonly { readonly name: string; readonly shape: readonly number[] }[];
    readonly tokens: readonly (readonly number[])[];
    readonly params: readonly number[];
    readonly gradient: readonly number[];
    readonly adamw: Omit<AdamWSpec, 'optimizer' | 'schedule'> & {
      readonly lr: number;
      readonly losses: readonly number[];
      readonly params: readonly number[];
    };
  };
  readonly charGpt: Case & {
    readonly parameters: number;
    readonly tensors: readonly {
      readonly name: string;
      readonly norm: number;
      readonly samples: readonly number[];
    }[];
  };
}

const { small, charGpt } = readVectors<Fixture>('gpt-gradient.json');
const { lr, losses: adamwLosses, params: adamwParams, ...adamw } = small.adamw;
const optimizer: AdamWSpec = { optimizer: 'adamw', schedule: constantRate(lr), ...adamw };

/** Parameters and tokens by the fixture's formula. */
function draw({ spec, seed, scale, batch }: Case, layout: Layout) {
  const { parameters, tokens } = createDraw(seed, { scale, norms: /norm\.weight$/ });
  const params = parameters(layout);
  return { params, corpus: tokens({ batch, context: spec.context }, spec.vocabulary) };
}

function feedsOf({ spec, batch }: Case, corpus: Uint8Array) {
  const elements = Array.from({ length: batch }, (_, i) => i * (spec.context + 1));
  return {
    corpus: { dtype: 'u8', shape: [corpus.length], elements: corpus },
    rows: { dtype: 'i32', shape: [batch], elements },
  } as const;
}

const vector = (elements: ArrayLike<number>) =>
  ({ dtype: 'f32', shape: [elements.length], elements }) as const;

describe('a small GPT', () => {
  const program = compileTraining(small.spec, optimizer, small.batch);
  const { params, corpus } = draw(small, program.layout);
  const feeds = feedsOf(small, corpus);

  test('has the same tensors, parameters and tokens', () => {
    expect(program.layout.slots.map(({ name, shape }) => ({ name, shape }))).toEqual(small.tensors);
    expect([...params]).toEqual(small.params);
    expect([...corpus]).toEqual(small.tokens.flat());
  });

  test('has the same loss and gradient', async () => {
    const run = await load(program.gradient());
    const { loss, gradient } = await run({ ...feeds, params: vector(params) });
    expect(Math.abs(loss![0]! - small.loss)).toBeLessThan(1e-6);
    expect(error(gradient!, small.gradient)).toBeLessThan(2e-6);
  });

  test('takes the same AdamW steps, clipped and decayed', async () => {
    const run = await load(program.step());
    const names = ['params', ...program.optimizer.moments];
    let state = names.map((name) => (name === 'params' ? params : new Float32Array(params.length)));
    for (const [t, expected] of adamwLosses.entries()) {
      const vectors = names.map((name, i) => [name, vector(state[i]!)] as const);
      const rates = vector(program.optimizer.rates(t, t));
      const results = await run({ ...feeds, ...Object.fromEntries(vectors), rates });
      expect(Math.abs(results.loss![0]! - expected)).toBeLessThan(3e-6);
      state = names.map((name) => Float32Array.from(results[`${name}.next`]!));
    }
    const moved = adamwParams.map((value, i) => value - params[i]!);
    expect(
      error(
        state[0]!.map((value, i) => value - params[i]!),
        moved,
      ),
    ).toBeLessThan(1e-4);
  });
});

test('the char-gpt has the same loss, gradient norms and sampled gradients', async () => {
  const program = compileTraining(charGpt.spec, optimizer, charGpt.batch);
  const { layout } = program;
  expect(layout.size).toBe(charGpt.parameters);
  const { params, corpus } = draw(charGpt, layout);
  const run = await load(program.gradient());
  const { loss, gradient } = await run({ ...feedsOf(charGpt, corpus), params: vector(params) });
  expect(Math.abs(loss![0]! - charGpt.loss)).toBeLessThan(1e-5);
  expect(norm(gradient!) / charGpt.gradientNorm).toBeCloseTo(1, 5);
  layout.slots.forEach(({ name, offset, size }, k) => {
    const tensor = charGpt.tensors[k]!;
    expect(name).toBe(tensor.name);
    const values = gradient!.subarray(offset, offset + size);
    expect(Math.abs(norm(values) / tensor.norm - 1), name).toBeLessThan(1e-5);
    const { length } = tensor.samples;
    const sampled = tensor.samples.map((_, j) => values[Math.floor((j * size) / length)]!);
    expect(error(sampled, tensor.samples), name).toBeLessThan(1e-5);
  });
});
