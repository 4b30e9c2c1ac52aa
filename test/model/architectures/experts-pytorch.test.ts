/** Mixtures of experts against PyTorch in float64, from a stored fixture (test/vectors/make_experts.py). */

import { compileTraining, modelLayout } from 'nostrain/model';
import type { GptSpec, LlamaSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { createDraw, error, norm, type TensorCase } from '../../support/decoder-cases.ts';
import { adamwSpec } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';
import { readVectors } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly spec: GptSpec | LlamaSpec;
  readonly seed: number;
  readonly batch: number;
  readonly context: number;
  readonly loss: number;
  readonly balance: number;
  /** Loss without load balancing, in which gpt weighs groups by the tokens so far. */
  readonly evaluation: number;
  readonly tensors: readonly TensorCase[];
}

const { cases } = readVectors<{ readonly cases: readonly Case[] }>('experts.json');

describe.each(cases)('$name', (one) => {
  const { spec, seed, batch, context } = one;
  const layout = modelLayout(spec);
  const draw = createDraw(seed, { scale: 1 / 2 ** 15 });
  const params = draw.parameters(layout);
  const tokens = draw.tokens(one, spec.vocabulary);
  const feeds = {
    params: { dtype: 'f32', shape: [layout.size], elements: params },
    corpus: { dtype: 'u8', shape: [tokens.length], elements: tokens },
    rows: {
      dtype: 'i32',
      shape: [batch],
      elements: Array.from({ length: batch }, (_, i) => i * (context + 1)),
    },
  } as const;

  test('has the listed tensors, each expert below its prefix and in chunks of its own', () => {
    const named = ({ name, shape }: { name: string; shape: readonly number[] }) => [name, shape];
    expect(layout.slots.map(named)).toEqual(one.tensors.map(named));
  });

  test.each([false, true])('has the same loss and gradient (recompute: %s)', async (recompute) => {
    const program = compileTraining(spec, adamwSpec, batch, { recompute });
    const run = await load(program.gradient());
    const { loss, gradient } = await run(feeds);
    expect(Math.abs(loss![0]! - one.loss - one.balance)).toBeLessThan(2e-6);
    layout.slots.forEach(({ name, offset, size }, k) => {
      const tensor = one.tensors[k]!;
      const values = gradient!.subarray(offset, offset + size);
      expect(Math.abs(norm(values) - tensor.norm), name).toBeLessThan(2e-5 * (tensor.norm || 1));
      const count = tensor.samples.length;
      const sampled = tensor.samples.map((_, j) => values[Math.floor((j * size) / count)]!);
      if (tensor.norm > 0) expect(error(sampled, tensor.samples), name).toBeLessThan(1e-3);
    });
  });

  test('evaluates without the load-balancing loss', async () => {
    const run = await load(compileTraining(spec, adamwSpec, batch).evaluate());
    const { losses } = await run(feeds);
    const mean = losses!.reduce((sum, loss) => sum + loss, 0) / batch;
    expect(Math.abs(mean - one.evaluation)).toBeLessThan(2e-6);
  });
});
