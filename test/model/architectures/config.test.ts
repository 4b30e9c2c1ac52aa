import { ConfigError } from 'nostrain/base';
import { countParameters } from 'nostrain/model';
import { describe, expect, test } from 'vitest';
import { readModelConfig } from '../../../src/model/architectures/config.ts';

/** SmolLM2-135M as published. */
const smol = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 1,
  eos_token_id: 2,
  hidden_act: 'silu',
  hidden_size: 576,
  initializer_range: 0.041666666666666664,
  intermediate_size: 1536,
  is_llama_config: true,
  max_position_embeddings: 8192,
  mlp_bias: false,
  model_type: 'llama',
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  pad_token_id: 2,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_interleaved: false,
  rope_scaling: null,
  rope_theta: 100000,
  tie_word_embeddings: true,
  torch_dtype: 'bfloat16',
  'transformers.js_config': { kv_cache_dtype: { q4f16: 'float16' } },
  transformers_version: '4.42.3',
  use_cache: true,
  vocab_size: 49152,
};
const gpt2 = {
  model_type: 'gpt2',
  vocab_size: 50257,
  n_embd: 768,
  n_layer: 12,
  n_head: 12,
  n_positions: 1024,
};
const at = { context: 256 };

test('SmolLM2 is read with its size', () => {
  const spec = readModelConfig(smol, at);
  expect(spec).toMatchObject({
    architecture: 'llama',
    heads: 9,
    keyValueHeads: 3,
    headSize: 64,
    rope: { base: 100_000 },
    tied: true,
    context: 256,
  });
  expect(countParameters(spec)).toBe(134_515_008);
});

test('GPT-2 is read with its size', () => {
  expect(countParameters(readModelConfig(gpt2, at))).toBe(124_439_808);
});

test('older and newer files say the same of positions', () => {
  const scaling = {
    factor: 32.0,
    high_freq_factor: 4.0,
    low_freq_factor: 1.0,
    original_max_position_embeddings: 8192,
    rope_type: 'llama3',
  };
  const { rope_theta: _, rope_scaling: __, ...bare } = smol;
  const older = readModelConfig({ ...bare, rope_theta: 500000, rope_scaling: scaling }, at);
  const newer = readModelConfig(
    { ...bare, rope_parameters: { ...scaling, rope_theta: 500000 } },
    at,
  );
  expect(older).toEqual(newer);
  expect(older).toMatchObject({ rope: { base: 500_000, scaling: { type: 'llama3', factor: 32 } } });
  const linear = readModelConfig({ ...smol, rope_scaling: { type: 'linear', factor: 2 } }, at);
  expect(linear).toMatchObject({ rope: { scaling: { type: 'linear', factor: 2 } } });
});

test('families differ in what their files leave out', () => {
  const { num_key_value_heads: _, ...without } = { ...smol, num_attention_heads: 8 };
  const read = (changes: object) => readModelConfig({ ...without, ...changes }, at);
  expect(read({})).toMatchObject({ keyValueHeads: 8, bias: { queryKeyValue: false } });
  const mistral = { model_type: 'mistral', rope_interleaved: null, attention_bias: null };
  expect(read(mistral)).toMatchObject({ keyValueHeads: 8, window: 4096 });
  expect(read({ ...mistral, sliding_window: null })).not.toHaveProperty('window');
  const layer_types = ['sliding_attention', 'sliding_attention'];
  expect(read({ ...mistral, layer_types })).toMatchObject({ window: 4096 });
  const full = { layer_types: ['full_attention', 'full_attention'] };
  expect(read({ ...mistral, ...full, sliding_window: null })).not.toHaveProperty('window');
  expect(read(full)).toEqual(read({}));
  const qwen = { use_sliding_window: false, sliding_window: 131072, max_window_layers: 21 };
  expect(read({ model_type: 'qwen2', ...qwen })).toMatchObject({ bias: { queryKeyValue: true } });
  const qwen3 = read({ model_type: 'qwen3', ...qwen });
  expect(qwen3).toMatchObject({ queryKeyNorm: true, headSize: 128 });
});

describe('what is not built is refused by its name', () => {
  test.each<[string, object]>([
    ['model_type', { model_type: 'gemma3' }],
    ['model_type', { model_type: 'toString' }],
    ['hidden_act', { hidden_act: 'gelu' }],
    ['rope_scaling.rope_type', { rope_scaling: { type: 'yarn', factor: 4 } }],
    ['rope_scaling.rope_type', { rope_scaling: { rope_type: 'dynamic', factor: 4 } }],
    ['rope_scaling.factor', { rope_scaling: { rope_type: 'linear' } }],
    ['rope_parameters.mscale', { rope_parameters: { rope_type: 'default', mscale: 1.2 } }],
    ['partial_rotary_factor', { partial_rotary_factor: 0.5 }],
    ['rope_interleaved', { rope_interleaved: true }],
    ['use_sliding_window', { model_type: 'qwen2', use_sliding_window: true }],
    ['layer_types', { model_type: 'qwen3', layer_types: ['full_attention', 'sliding_attention'] }],
    ['layer_types', { layer_types: ['full_attention', 'linear_attention'] }],
    ['layer_types', { layer_types: ['sliding_attention'] }],
    ['layer_types', { model_type: 'mistral', layer_types: ['full_attention'] }],
    ['is_causal', { is_causal: false }],
    ['is_causal', { ...gpt2, is_causal: false }],
    [
      'rope_scaling',
      {
        rope_parameters: { rope_type: 'default', rope_theta: 100000 },
        rope_scaling: { rope_type: 'linear', factor: 2 },
      },
    ],
    ['rope_scaling.rope_type', { rope_parameters: {}, rope_scaling: { rope_type: 'yarn' } }],
    ['sliding_window', { sliding_window: 4096 }],
    ['quantization_config', { quantization_config: { quant_method: 'gptq' } }],
    ['layers 200000000', { num_hidden_layers: 200_000_000 }],
    ['layers', { ...gpt2, n_layer: 2000 }],
    ['vocabulary', { vocab_size: 2 ** 30 }],
    ['headSize', { head_dim: 10_000_000 }],
    ['num_local_experts', { num_local_experts: 8 }],
    ['hidden_size', { hidden_size: null }],
    ['vocab_size', { vocab_size: 1.5 }],
    ['tie_word_embeddings', { tie_word_embeddings: 'yes' }],
    ['rms_norm_eps', { rms_norm_eps: 0 }],
    ['scale_attn_weights', { ...gpt2, scale_attn_weights: false }],
    ['activation_function', { ...gpt2, activation_function: 'silu' }],
    ['add_cross_attention', { ...gpt2, add_cross_attention: true }],
  ])('%s', (key, changes) => {
    const base = 'n_embd' in changes ? {} : smol;
    const read = () => readModelConfig({ ...base, ...changes }, at);
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(key);
  });

  test('and so is a context longer than the positions, and what is no object', () => {
    expect(() => readModelConfig(smol, { context: 8193 })).toThrow(
      'max_position_embeddings of 8192',
    );
    expect(() => readModelConfig([], at)).toThrow(ConfigError);
  });
});
