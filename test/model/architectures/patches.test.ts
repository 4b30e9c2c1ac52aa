/** The forecaster and the vision transformer against PyTorch in float64, from a stored fixture (test/vectors/make_patches.py). */

import { compileTraining, modelOf } from 'nostrain/model';
import type { Layout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import type { ForecasterSpec, VitSpec } from '../../../src/run/spec/model-spec.ts';
import { createDraw, error } from '../../support/decoder-cases.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly spec: ForecasterSpec | VitSpec;
  readonly seed: number;
  readonly scale: number;
  readonly losses: readonly number[];
  readonly predictions: readonly number[];
  readonly gradient: readonly number[];
}

const { cases, batch } = readVectors<{ readonly cases: readonly Case[]; readonly batch: number }>(
  'patches.json',
);

/** Parameters and data by the fixture's formula. */
function draw({ spec, seed, scale }: Case, layout: Layout) {
  const source = createDraw(seed, { scale, norms: /norm\.weight$/ });
  const params = source.parameters(layout);
  const rows = Array.from({ length: batch }, (_, i) => i);
  const index = (elements: readonly number[]) =>
    ({ dtype: 'i32', shape: [batch], elements }) as const;
  if (spec.architecture === 'vit') {
    const { pixels, channels, classes } = spec;
    const shape = [batch, pixels, pixels, channels];
    const elements = source.numbers(batch * pixels * pixels * channels).map((n) => n % 256);
    const labels = source.numbers(batch).map((n) => n % classes);
    const bytes = { dtype: 'u8', shape, elements } as const;
    const first = elements.slice(0, pixels * pixels * channels).map((n) => n / 127.5 - 1);
    const inputs = { dtype: 'f32', shape: [1, ...shape.slice(1)], elements: first } as const;
    return {
      params,
      feeds: { pixels: bytes, labels: index(labels), rows: index(rows) },
      inputs,
      labels,
    };
  }
  const { channels, context, horizon } = spec;
  const steps = context + horizon;
  const elements = source.numbers(batch * steps * channels).map((n) => (n - 32768) / 16384);
  const series = { dtype: 'f32', shape: [batch * steps, channels], elements } as const;
  const inputs = {
    dtype: 'f32',
    shape: [1, context, channels],
    elements: elements.slice(0, context * channels),
  } as const;
  return { params, feeds: { series, rows: index(rows.map((row) => row * steps)) }, inputs };
}

const vector = (elements: ArrayLike<number>) =>
  ({ dtype: 'f32', shape: [elements.length], elements }) as const;

const named = cases.map((each) => {
  const { spec } = each;
  const how = spec.architecture === 'vit' ? '' : `, ${spec.error}, scaled by the ${spec.scaling}`;
  return { name: `${spec.architecture}${how}`, each };
});

describe.each(named)('$name', ({ each }) => {
  const targets = ['cpu', 'webgpu'] as const;
  test.each(targets)('has the losses and the gradient of PyTorch (%s)', async (target) => {
    const program = compileTraining(each.spec, adamwSpec, batch, { target });
    const { params, feeds } = draw(each, program.layout);
    const evaluated = await (await load(program.evaluate()))({ ...feeds, params: vector(params) });
    each.losses.forEach((loss, i) => {
      expect(evaluated.losses![i]).toBeCloseTo(loss, 5);
    });
    const run = await load(program.gradient());
    const { gradient } = await run({ ...feeds, params: vector(params) });
    expect(error(gradient!, each.gradient)).toBeLessThan(5e-6);
  });

  test('predicts as PyTorch does', async () => {
    const program = compileTraining(each.spec, adamwSpec, batch);
    const { params, inputs } = draw(each, program.layout);
    const run = await load(program.forward());
    const { predictions } = await run({ inputs, params: vector(params) });
    expect(error(predictions!, each.predictions)).toBeLessThan(5e-6);
  });

  test('has the same gradient with recomputed layers', async () => {
    const program = compileTraining(each.spec, adamwSpec, batch, { recompute: true });
    const { params, feeds } = draw(each, program.layout);
    const run = await load(program.gradient());
    const { gradient } = await run({ ...feeds, params: vector(params) });
    expect(error(gradient!, each.gradient)).toBeLessThan(5e-6);
  });
});

test('hits are pictures whose largest logit is that of their class', async () => {
  const each = cases.find(({ spec }) => spec.architecture === 'vit')!;
  const program = compileTraining(each.spec, adamwSpec, batch);
  const { params, feeds, labels = [] } = draw(each, program.layout);
  const { predictions } = each;
  const guess = predictions.indexOf(Math.max(...predictions));
  const run = await load(program.evaluate());
  for (const label of [guess, (guess + 1) % 4]) {
    const told = { ...feeds, labels: { ...feeds.rows, elements: [label, ...labels.slice(1)] } };
    const { hits } = await run({ ...told, params: vector(params) });
    expect(hits![0]).toBe(label === guess ? 1 : 0);
  }
});

test('widths that do not divide are refused with what to do', () => {
  const spec = (architecture: 'forecaster' | 'vit') =>
    cases.find(({ spec }) => spec.architecture === architecture)!.spec;
  const refused = [
    [{ ...spec('forecaster'), patch: 5 }, /context 12 does not divide into patches of 5/],
    [{ ...spec('vit'), patch: 4 }, /pixels 6 does not divide into patches of 4/],
    [{ ...spec('vit'), heads: 3 }, /width 8 does not divide into 3 heads/],
  ] as const;
  for (const [wrong, words] of refused) expect(() => modelOf(wrong)).toThrow(words);
});
