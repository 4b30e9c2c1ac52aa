/** Training in which only some tokens count: against PyTorch in float64 (test/vectors/make_masked.py), in parts, and with none at all. */

import {
  type CompileOptions,
  type CustomModel,
  compileTraining,
  modelOf,
  readModelConfig,
} from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { reduceMean } from '../../src/model/graph/verbs.ts';
import { createDraw, type DecoderCase, distance, norm } from '../support/decoder-cases.ts';
import { adamwSpec } from '../support/ort-models.ts';
import { load } from '../support/ort-run.ts';
import { readVectors } from '../support/vectors.ts';

interface Case extends DecoderCase {
  readonly counted: readonly number[];
  readonly rows: readonly (number | null)[];
}

const { cases } = readVectors<{ readonly cases: readonly Case[] }>('masked.json');

describe.each(cases)('$name', (one) => {
  const { config, batch, context, counted, loss, tensors } = one;
  const spec = readModelConfig(config, { context });
  const compile = (options: CompileOptions = {}, rows = batch) =>
    compileTraining(spec, adamwSpec, rows, { masked: true, ...options });
  const { layout } = compile();
  const draw = createDraw(one.seed);
  const params = draw.parameters(layout);
  const tokens = draw.tokens(one, spec.vocabulary);
  const feeds = (rows: readonly number[], mask: ArrayLike<number> = counted) =>
    ({
      params: { dtype: 'f32', shape: [layout.size], elements: params },
      corpus: { dtype: 'u8', shape: [tokens.length], elements: tokens },
      counted: { dtype: 'u8', shape: [mask.length], elements: mask },
      rows: { dtype: 'i32', shape: [rows.length], elements: rows.map((i) => i * (context + 1)) },
    }) as const;
  const gradient = async (options: CompileOptions, rows = [0, 1, 2, 3], mask?: number[]) =>
    await (await load(compile(options, rows.length).gradient()))(feeds(rows, mask));

  test.each([{}, { accumulate: 2 }, { accumulate: 4, recompute: true }])(
    'loss and gradient are those of PyTorch, %j',
    async (options) => {
      const found = await gradient(options);
      expect(Math.abs(found.loss![0]! - loss)).toBeLessThan(1e-5 * loss);
      const whole = norm(tensors.map((tensor) => tensor.norm));
      layout.slots.forEach(({ name, offset, size }, k) => {
        const values = found.gradient!.subarray(offset, offset + size);
        const tensor = tensors[k]!;
        const least = 1e-6 * whole;
        expect(tensor.name).toBe(name);
        expect(Math.abs(norm(values) - tensor.norm), name).toBeLessThan(least + 1e-5 * tensor.norm);
        const { length } = tensor.samples;
        const picked = tensor.samples.map((_, j) => values[Math.floor((j * size) / length)]!);
        expect(distance(picked, tensor.samples), name).toBeLessThan(
          least + 1e-5 * norm(tensor.samples),
        );
      });
    },
  );

  test('parts weighed by their counted tokens make the gradient of the whole batch', async () => {
    const parts = [await gradient({}, [0, 1]), await gradient({}, [2, 3])];
    const counts = parts.map(({ count }) => count![0]!);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const whole = await gradient({});
    expect(whole.count![0]).toBe(total);
    const combine = await load(compile().combine(2));
    const joined = await combine({
      gradients: {
        dtype: 'f32',
        shape: [2, layout.size],
        elements: parts.flatMap((part) => [...part.gradient!]),
      },
      shares: { dtype: 'f32', shape: [1, 2], elements: counts.map((count) => count / total) },
    });
    expect(distance(joined.gradient!, whole.gradient!)).toBeLessThan(1e-6 * norm(whole.gradient!));
  });

  test('rows are evaluated over what counts in them', async () => {
    const { losses, counts } = await (await load(compile().evaluate()))(feeds([0, 1, 2, 3]));
    one.rows.forEach((row, i) => {
      expect(Math.abs(losses![i]! - (row ?? 0))).toBeLessThan(1e-5);
      expect(counts![i] === 0).toBe(row === null);
    });
    expect(counts![2]).toBe(1);
  });

  test('a batch of which nothing counts has loss 0 and no gradient', async () => {
    const { loss: none, gradient: zero, count } = await gradient({ accumulate: 2 }, [1, 1]);
    expect([none![0], count![0]]).toEqual([0, 0]);
    expect(zero!.every((value) => value === 0)).toBe(true);
  });

  test('all tokens counted is training without a mask, which has no input for one', async () => {
    const plain = compileTraining(spec, adamwSpec, batch);
    const { counted: _, ...unmasked } = feeds([0, 1, 2, 3]);
    const without = await (await load(plain.gradient()))(unmasked);
    const all = await gradient(
      {},
      [0, 1, 2, 3],
      counted.map(() => 1),
    );
    expect(distance(all.gradient!, without.gradient!)).toBeLessThan(1e-6 * norm(without.gradient!));
    expect(all.loss![0]).toBeCloseTo(without.loss![0]!, 5);
  });

  test('a model of losses per row is refused', () => {
    const model: CustomModel = {
      architecture: 'own',
      data: { kind: 'tokens', vocabulary: spec.vocabulary, context },
      ...modelOf(spec),
      losses: (weights, windows) => reduceMean(modelOf(spec).losses(weights, windows), [1]),
    };
    const program = compileTraining(model, adamwSpec, batch, { masked: true });
    expect(() => program.step()).toThrow('one loss per token');
  });
});
