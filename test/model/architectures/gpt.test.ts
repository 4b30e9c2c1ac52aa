/** The GPT against an f64 forward pass in plain TypeScript and, where the fixture is present, against PyTorch. */

import { philox, unit } from 'nostrain/base';
import { compileTraining, initialParameters } from 'nostrain/model';
import type { GptSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { referenceLoss } from '../../support/ort-gpt-reference.ts';
import { adamwSpec, chainCorpus, smallGpt, tinyGpt } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';

/** Starting values with every bias and norm moved too, so that nothing is zero or one by accident. */
function roughParameters(spec: GptSpec): Float32Array {
  return initialParameters(spec, 1).map((value, i) =>
    Math.fround(value * 4 + 0.2 * (unit(philox([1, 1], i, 0, 0, 0)[0]) - 0.5)),
  );
}

function batchOf(spec: GptSpec, rows: readonly number[]) {
  const corpus = chainCorpus(400, spec.vocabulary);
  return {
    tokens: rows.map((row) => [...corpus.subarray(row, row + spec.context + 1)]),
    feeds: {
      corpus: { dtype: 'u8', shape: [400], elements: corpus },
      rows: { dtype: 'i32', shape: [rows.length], elements: rows },
    } as const,
  };
}

const paramsFeed = (params: Float32Array) =>
  ({ dtype: 'f32', shape: [params.length], elements: params }) as const;

describe('against the f64 reference', () => {
  test('losses of every row, for the CPU and for WebGPU', async () => {
    const params = roughParameters(smallGpt);
    const { tokens, feeds } = batchOf(smallGpt, [0, 17, 301]);
    for (const target of ['cpu', 'webgpu'] as const) {
      const program = compileTraining(smallGpt, adamwSpec, 3, { target });
      const run = await load(program.evaluate());
      const { losses } = await run({ ...feeds, params: paramsFeed(params) });
      tokens.forEach((row, i) => {
        expect(losses![i]).toBeCloseTo(referenceLoss(smallGpt, params, [row]), 5);
      });
    }
  });

  test('the gradient by every parameter, for the CPU and for WebGPU', async () => {
    const params = roughParameters(tinyGpt);
    const { tokens, feeds } = batchOf(tinyGpt, [3, 50]);
    const step = 1e-6;
    const expected = Float64Array.from(params, (_, i) => {
      const at = (shift: number) => {
        const moved = Float64Array.from(params);
        moved[i]! += shift;
        return referenceLoss(tinyGpt, moved, tokens);
      };
      return (at(step) - at(-step)) / (2 * step);
    });
    for (const target of ['cpu', 'webgpu'] as const) {
      const program = compileTraining(tinyGpt, adamwSpec, 2, { target });
      const run = await load(program.gradient());
      const { loss, gradient } = await run({ ...feeds, params: paramsFeed(params) });
      expect(loss![0]).toBeCloseTo(referenceLoss(tinyGpt, params, tokens), 5);
      expect(relativeError(gradient!, expected)).toBeLessThan(2e-6);
    }
  });
});

test('no position sees a later one', async () => {
  const run = await load(compileTraining(smallGpt, adamwSpec, 1).forward());
  const { context, vocabulary } = smallGpt;
  const tokens = [...chainCorpus(context, vocabulary)];
  const logits = async (elements: readonly number[]) => {
    const inputs = { dtype: 'i32', shape: [1, context], elements } as const;
    return (await run({ inputs, params: paramsFeed(roughParameters(smallGpt)) })).predictions!;
  };
  const before = await logits(tokens);
  const after = await logits(tokens.with(20, (tokens[20]! + 1) % vocabulary));
  expect(after.subarray(0, 20 * vocabulary)).toEqual(before.subarray(0, 20 * vocabulary));
  expect(after.subarray(20 * vocabulary)).not.toEqual(before.subarray(20 * vocabulary));
});

function relativeError(actual: Float64Array, expected: Float64Array): number {
  let [difference, total] = [0, 0];
  expected.forEach((value, i) => {
    difference += (actual[i]! - value) ** 2;
    total += value ** 2;
  });
  return Math.sqrt(difference / total);
}
