/** MatFormer tiers: a tier is a prefix of the full model's vector, and its program is that of the full model with its outer slices at zero. */

import { compileTraining, initialParameters, modelLayout } from 'nostrain/model';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import type { TieredSpec } from '../../../src/model/architectures/table.ts';
import { localSlices } from '../../../src/tensor/params.ts';
import { adamwSpec, chainCorpus, tinyGpt2, tinyLlama } from '../../support/ort-models.ts';
import { load } from '../../support/ort-run.ts';

const sizes = { vocabulary: 300, width: 16, layers: 2, heads: 4, ffn: 24, context: 10 };
const models: readonly TieredSpec[] = [
  { ...sizes, architecture: 'gpt' },
  { ...tinyLlama, ...sizes, keyValueHeads: 2, headSize: 4, deviation: 0.1 },
  { ...tinyGpt2, ...sizes, positions: 12, deviation: 0.1 },
];
const batch = 4;
const corpus = Int32Array.from(chainCorpus(400, 200), (token) => token + 90);
const at = <S extends TieredSpec>(spec: S, own: number, count = 2): S => ({
  ...spec,
  tiers: { count, tier: own },
});

const rowsAndCorpus = {
  corpus: { dtype: 'i32', shape: [corpus.length], elements: corpus },
  rows: { dtype: 'i32', shape: [batch], elements: [5, 300, 77, 150] },
} as const;
const vector = (elements: ArrayLike<number>) =>
  ({ dtype: 'f32', shape: [elements.length], elements }) as const;

describe.each(models)('tiers of $architecture', (spec) => {
  test('a tier has the first slots of the full model, at the same places and with the same first values', () => {
    const whole = modelLayout(at(spec, 0));
    const values = initialParameters(at(spec, 0), 7);
    for (const own of [1, 2]) {
      const { slots, size } = modelLayout(at(spec, own));
      expect(slots).toEqual(whole.slots.slice(0, slots.length));
      expect(size % CHUNK_LENGTH).toBe(0);
      expect(initialParameters(at(spec, own), 7)).toEqual(values.subarray(0, size));
    }
  });

  test('slices follow each other, and a tier has all but the last ones', () => {
    const { slices = [] } = modelLayout(at(spec, 0));
    expect(slices).toHaveLength(3);
    expect(slices[0]!.from).toBe(0);
    expect(slices.slice(1).map(({ from }) => from)).toEqual(slices.slice(0, 2).map(({ to }) => to));
    expect(slices[2]!.to).toBe(modelLayout(at(spec, 0)).size);
    expect(localSlices(modelLayout(at(spec, 1)))).toEqual(slices.slice(0, 2));
    expect(modelLayout(spec).slices).toBeUndefined();
  });

  test('E-02: a tier computes what the full model does whose outer slices are zero', async () => {
    const whole = initialParameters(at(spec, 0), 3);
    const gradient = async (own: number, params: Float32Array) => {
      const run = await load(compileTraining(at(spec, own), adamwSpec, batch).gradient());
      return run({ params: vector(params), ...rowsAndCorpus });
    };
    for (const own of [1, 2]) {
      const prefix = whole.slice(0, modelLayout(at(spec, own)).size);
      const masked = whole.slice().fill(0, prefix.length);
      const [narrow, wide] = [await gradient(own, prefix), await gradient(0, masked)];
      expect(narrow.loss![0]).toBeCloseTo(wide.loss![0]!, 5);
      const off = narrow.gradient!.map((value, i) => Math.abs(value - wide.gradient![i]!));
      expect(Math.max(...off)).toBeLessThan(1e-6);
    }
  });

  test('one tier of all has the bits of the model without tiers', async () => {
    const run = async (model: TieredSpec) => {
      const params = initialParameters(model, 3);
      const program = compileTraining(model, adamwSpec, batch);
      const results = await (await load(program.gradient()))({
        params: vector(params),
        ...rowsAndCorpus,
      });
      return results.loss![0];
    };
    expect(await run({ ...spec, ffn: 48, tiers: { count: 1, tier: 1 } })).toBe(await run(spec));
  });

  test('a step moves no padding', async () => {
    const model = at(spec, 1);
    const params = initialParameters(model, 3);
    const program = compileTraining(model, adamwSpec, batch);
    const zeros = vector(new Float32Array(params.length));
    const results = await (await load(program.step()))({
      params: vector(params),
      first: zeros,
      second: zeros,
      rates: vector([0.01, 1, 1].slice(0, program.optimizer.rateCount)),
      ...rowsAndCorpus,
    });
    const after = Object.entries(results).find(([name]) => name.startsWith('params'))![1];
    const padding = program.layout.slots.filter(({ name }) => name.startsWith('padding.'));
    expect(padding.length).toBeGreaterThan(0);
    for (const { offset, size } of padding) {
      expect(after.subarray(offset, offset + size).every((value) => value === 0)).toBe(true);
    }
    expect([...after]).not.toEqual([...params]);
  });
});

test('widths that do not divide and tiers that are not there are refused by name', () => {
  const [gpt] = models as readonly [TieredSpec];
  expect(() => modelLayout(at(gpt, 0, 4))).toThrow(/24 wide, which is not divisible by 16/);
  expect(() => modelLayout(at(gpt, 3, 2))).toThrow(/no tier 3 of 2/);
  expect(() => modelLayout(at(gpt, -1, 2))).toThrow(/no tier -1/);
  expect(() => modelLayout(at(gpt, 0, 9))).toThrow(/no tier 0 of 9/);
});
