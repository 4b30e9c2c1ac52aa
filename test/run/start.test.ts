/** The section `start` of a run spec: every shape that a published model can have, and what is refused with its path. */

import { layoutOf } from 'nostrain/certified';
import { readModelConfig } from 'nostrain/model';
import {
  canonicalSpec,
  completeDocument,
  hashBase,
  parseRunSpec,
  readSpec,
  readStart,
  runIdOf,
  shapeOf,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { assertSameBase, decoderIn } from '../../src/run/spec/start.ts';
import { sampleDocument } from '../support/run-spec.ts';
import { tinyConfig } from '../support/tiny-llama.ts';

const HASH = 'ab'.repeat(32);
const llama3 = {
  ...{ rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4 },
  original_max_position_embeddings: 32,
};
const gpt2 = {
  ...{ model_type: 'gpt2', n_embd: 32, n_layer: 2, n_head: 4, n_positions: 64, vocab_size: 260 },
  activation_function: 'gelu_new',
};
const configs = {
  llama: tinyConfig,
  'llama 3': { ...tinyConfig, rope_scaling: llama3, tie_word_embeddings: false },
  linear: { ...tinyConfig, rope_scaling: { rope_type: 'linear', factor: 2 } },
  mistral: { ...tinyConfig, model_type: 'mistral', sliding_window: 16 },
  qwen2: { ...tinyConfig, model_type: 'qwen2' },
  qwen3: { ...tinyConfig, model_type: 'qwen3', head_dim: 8 },
  gpt2,
};
const file = { name: 'model.safetensors', bytes: 9, sha256: HASH };
const start = (config: object = tinyConfig, more: object = {}) => ({
  ...{ files: [file], tokenizerSha256: HASH, from: ['hf:owner/name@main'] },
  model: shapeOf(readModelConfig({ ...config }, { context: 32 })),
  adapter: { rank: 4, alpha: 8, targets: 'all-linear', adapterTrain: 'both' },
  root: null,
  ...more,
});
const document = (more: object = {}) => {
  const { training, ...rest } = sampleDocument();
  return completeDocument(
    {
      ...rest,
      training: { ...(training as object), model: 'pretrained', context: 32 },
      ...{ start: start(), data: { kind: 'own' }, ...more },
    },
    {},
  );
};

describe('the start of a run', () => {
  it.each(Object.entries(configs))('holds the whole shape of %s', (_, config) => {
    const spec = readModelConfig({ ...config }, { context: 32 });
    const read = readStart(JSON.parse(JSON.stringify({ start: start(config) })));
    expect(decoderIn(read, 32)).toEqual(spec);
  });

  it('is a feature of its own, and lays the parameters out without any file', () => {
    const spec = readSpec(document());
    expect(spec.features).toEqual(['start']);
    const again = parseRunSpec(canonicalSpec(spec));
    expect(runIdOf(again)).toBe(runIdOf(spec));
    const { slots } = layoutOf(spec.training, spec);
    expect(slots.every(({ name }) => name.includes('lora_'))).toBe(true);
    expect(() => layoutOf(spec.training)).toThrow(/needs a base/);
  });

  it.each([
    ['another model with it', { training: { ...(sampleDocument().training as object) } }, /model/],
    ['no start', { start: undefined }, /training\.model is "pretrained"/],
    [
      'two files of one name',
      { start: start(tinyConfig, { files: [file, file] }) },
      /start\.files/,
    ],
    [
      'a path',
      { start: start(tinyConfig, { files: [{ ...file, name: '../x' }] }) },
      /files\.0\.name/,
    ],
    [
      'no root of all parameters',
      { start: start(tinyConfig, { adapter: { ...start().adapter, rank: 0 } }) },
      /start\.root/,
    ],
    ['a root of adapters', { start: start(tinyConfig, { root: HASH }) }, /start\.root.*null with/],
    ['a hint that is none', { start: start(tinyConfig, { from: ['two words'] }) }, /start\.from/],
    [
      'another family',
      { start: start(tinyConfig, { model: { architecture: 'mamba' } }) },
      /architecture/,
    ],
    [
      'a size too much',
      { start: start(tinyConfig, { model: { ...start().model, layers: 5000 } }) },
      /start\.model\.layers/,
    ],
    [
      'an unknown size',
      { start: start(tinyConfig, { model: { ...start().model, experts: 5 } }) },
      /start\.model\.experts/,
    ],
    [
      'a longer context',
      {
        start: start({ ...gpt2, n_positions: 32 }),
        training: { ...(document().training as object), context: 64 },
      },
      /training\.context/,
    ],
    [
      'adapters in turn',
      { start: start(tinyConfig, { adapter: { ...start().adapter, adapterTrain: 'alternate' } }) },
      /start\.adapter\.adapterTrain is "alternate"; it must be both/,
    ],
  ])('with %s is refused by its path', (_, more, expected) => {
    expect(() => readSpec(document(more))).toThrow(expected);
  });

  it('tells another base by the first file that differs', () => {
    const wanted = { files: [file], tokenizerSha256: HASH };
    expect(() => assertSameBase(wanted, wanted)).not.toThrow();
    const other = (files: object[], tokenizerSha256 = HASH) =>
      expect(() => assertSameBase({ files: files as never, tokenizerSha256 }, wanted));
    const renamed = { files: [{ ...file, name: 'my model.gguf' }], tokenizerSha256: HASH };
    const published = { ...renamed, files: [{ ...file, name: 'Model.Q4_1.gguf' }] };
    expect(() => assertSameBase(renamed, published)).not.toThrow();
    expect(hashBase(renamed)).toBe(hashBase(published));
    expect(hashBase(renamed)).not.toBe(hashBase(wanted));
    other([]).toThrow(/it has no model\.safetensors/);
    other([{ ...file, sha256: 'cd'.repeat(32), bytes: 8 }]).toThrow(/differs: 8 bytes, not 9/);
    other([file, { ...file, name: 'more' }]).toThrow(/more is not among/);
    other([file], 'cd'.repeat(32)).toThrow(/tokenizer differs/);
  });
});
