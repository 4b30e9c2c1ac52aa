/** Low-rank adapters: which layers get one, how they start, how many numbers they have, and what is refused. */

import { countParameters, initialParameters, modelLayout, readModelConfig } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { type LoraSpec, loraModel, loraTensors } from '../../../src/model/adapters/lora.ts';

const smol = readModelConfig(
  {
    ...{ model_type: 'llama', hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30 },
    ...{ num_attention_heads: 9, num_key_value_heads: 3, vocab_size: 49152, rope_theta: 100000 },
    ...{ max_position_embeddings: 8192, tie_word_embeddings: true, rms_norm_eps: 1e-5 },
  },
  { context: 256 },
);
const gpt2 = readModelConfig(
  { model_type: 'gpt2', n_embd: 48, n_layer: 12, n_head: 4, n_positions: 8, vocab_size: 50 },
  { context: 8 },
);
const settings: LoraSpec = { rank: 8, alpha: 16, targets: 'qv' };

describe('adapters of SmolLM2-135M', () => {
  test('have 460,800 parameters at rank 8 on queries and values', () => {
    expect(countParameters(loraModel(smol, settings))).toBe(460_800);
    expect(countParameters(loraModel(smol, { ...settings, targets: 'all-linear' }))).toBe(
      2_442_240,
    );
  });

  test('start with B zero and A even within one by the root of its inputs, for every seed', () => {
    const model = loraModel(smol, settings);
    const values = initialParameters(model, 7);
    const bound = 1 / Math.sqrt(576);
    for (const { name, offset, size } of modelLayout(model).slots) {
      const tensor = values.subarray(offset, offset + size);
      if (name.endsWith('lora_B.weight')) expect(tensor.every((value) => value === 0)).toBe(true);
      else {
        const squares = tensor.reduce((sum, value) => sum + value * value, 0);
        expect(tensor.every((value) => Math.abs(value) <= bound)).toBe(true);
        expect((squares / size / bound ** 2) * 3).toBeCloseTo(1, 1);
        expect(Math.abs(tensor.reduce((sum, value) => sum + value, 0) / size)).toBeLessThan(
          bound / 20,
        );
      }
    }
    expect(initialParameters(model, 7)).toEqual(values);
    expect(initialParameters(model, 8)).not.toEqual(values);
  });
});

describe('targets', () => {
  const of = (spec: typeof smol, targets: string) =>
    loraTensors(spec, { ...settings, targets })
      .map(({ name }) => /^base_model\.model\.(.*)\.lora_A/.exec(name)?.[1])
      .filter((name) => name !== undefined);

  test.each([
    ['o_proj', 30],
    ['q_proj, mlp.down_proj', 60],
    ['model.layers.3.self_attn.q_proj', 1],
    ['layers.1*.q_proj', 11],
    ['layers.*.mlp.*', 90],
    ['layers.*attn*_proj', 120],
    ['attention', 120],
    ['all-linear', 210],
  ])('%s are %i layers of a Llama', (targets, count) => {
    expect(of(smol, targets)).toHaveLength(count);
  });

  test('of GPT-2 are its joined layer of queries, keys and values', () => {
    expect(of(gpt2, 'qv')).toHaveLength(12);
    expect(of(gpt2, 'qv')[0]).toBe('transformer.h.0.attn.c_attn');
    expect(of(gpt2, 'attention')).toHaveLength(24);
    expect(of(gpt2, 'c_proj')).toHaveLength(24);
    expect(of(gpt2, 'all-linear')).toHaveLength(48);
  });

  test.each(['', 'q_proj,', 'roj', 'lm_head', 'q_proj*q_proj', 'c_attn', 'toString', 'x*', '*x'])(
    '"%s" without a layer of that name are refused',
    (targets) => {
      const missing = targets.split(',').at(-1)!;
      expect(() => loraModel(smol, { ...settings, targets })).toThrow(
        expect.objectContaining({
          code: 'adapter/targets',
          message: `no layer of the model is called ${JSON.stringify(missing)}`,
        }),
      );
    },
  );

  test('from a stranger take no time', () => {
    const targets = `${'*a'.repeat(20_000)}!`;
    expect(() => loraModel(smol, { ...settings, targets })).toThrow('no layer');
  });
});

test.each([0, -1, 1.5, Number.NaN, 193])('a rank of %d is refused by the layer', (rank) => {
  expect(() => loraModel(smol, { ...settings, rank })).toThrow(
    expect.objectContaining({
      code: 'adapter/rank',
      message: expect.stringMatching(/model\.layers\.0\.self_attn\.[qv]_proj, which is 576 x /),
    }),
  );
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('an alpha of %d is refused', (alpha) => {
  expect(() => loraModel(smol, { ...settings, alpha })).toThrow(
    expect.objectContaining({ code: 'adapter/alpha' }),
  );
});
