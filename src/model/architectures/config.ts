/**
 * Converts the `config.json` of a published model to the spec of `llama.ts` or `gpt2.ts`, with the defaults of
 * `transformers`. Options that change the output but are not supported are rejected by name, and so are unknown ones.
 */

import { ConfigError } from '../../base/errors.ts';
import { isObject, isWithin } from '../../base/shape.ts';
import type { DecoderSpec, Gpt2Spec, LlamaSpec, RopeScaling } from '../../run/spec/model-spec.ts';
import { shapes } from '../../run/spec/model-spec.ts';

/** Options without effect on logits: generation, heads for other tasks, other training, file formats. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(
  [
    'model_type architectures auto_map transformers_version torch_dtype dtype tokenizer_class ' +
      'prefix use_cache n_ctx',
    'gradient_checkpointing pretraining_tp is_llama_config reorder_and_upcast_attn ' +
      'transformers.js_config',
    'summary_type summary_use_proj summary_activation summary_proj_to_labels id2label label2id ' +
      'num_labels problem_type',
    'task_specific_params chunk_size_feed_forward output_attentions output_hidden_states ' +
      'return_dict',
    'unsloth_version unsloth_fixed matformer_tier matformer_base_intermediate_size',
  ].flatMap((line) => line.split(' ')),
);
/** More options without effect: dropout (not applied), special tokens, internal notes of `transformers`. */
const ALSO_WITHOUT_EFFECT = /^_|_token_ids?$|_(pdrop|dropout)$/;

/** Supported model families, by `model_type`. */
const families: Readonly<Record<string, (config: ConfigReader, context: number) => DecoderSpec>> = {
  llama: (config, context) => {
    const attention = config.flag('attention_bias', false);
    const feedforward = config.flag('mlp_bias', false);
    return readLlama(config, context, {
      bias: { queryKeyValue: attention, attentionOutput: attention, feedforward },
    });
  },
  mistral: (config, context) => {
    const window = config.takes('sliding_window') ? config.size('sliding_window', 4096) : undefined;
    return readLlama(config, context, { sharedBy: 8, ...(window === undefined ? {} : { window }) });
  },
  qwen2: (config, context) => {
    config.refuseWindows();
    const bias = { queryKeyValue: true, attentionOutput: false, feedforward: false };
    return readLlama(config, context, { bias });
  },
  qwen3: (config, context) => {
    config.refuseWindows();
    const attention = config.flag('attention_bias', false);
    const bias = { queryKeyValue: attention, attentionOutput: attention, feedforward: false };
    return readLlama(config, context, { bias, queryKeyNorm: true, headSize: 128 });
  },
  gpt2: readGpt2,
};

/**
 * Returns the spec of a parsed `config.json`. Throws a ConfigError (`model/config`) that names an unsupported option.
 */
export function readModelConfig(
  config: unknown,
  { context }: { readonly context: number },
): DecoderSpec {
  if (!isObject(config)) throw wrong('config.json is not a JSON object');
  const family = typeof config.model_type === 'string' ? config.model_type : undefined;
  const read = family !== undefined && Object.hasOwn(families, family) && families[family];
  if (!read) {
    throw wrong(`model_type ${JSON.stringify(config.model_type)} is not supported`, 'model_type');
  }
  const reader = new ConfigReader(config);
  reader.only('is_causal', [true], true);
  const spec = read(reader, context);
  reader.finish();
  assertSizes(spec);
  return spec;
}

/** Throws for sizes that a run spec does not allow, before the model is built. */
function assertSizes(spec: DecoderSpec): void {
  for (const [name, { read, accepted }] of Object.entries(shapes[spec.architecture])) {
    const value = spec[name as keyof DecoderSpec];
    try {
      read(value, name);
    } catch (cause) {
      throw wrong(`config.json gives ${name} ${value}: it must be ${accepted}`, name, cause);
    }
  }
}

interface Family {
  readonly bias?: LlamaSpec['bias'];
  readonly queryKeyNorm?: boolean;
  readonly window?: number;
  /** Default size of a head; if undefined, the width divided by the heads. */
  readonly headSize?: number;
  /** Default number of key-value heads; if undefined, as many as query heads. */
  readonly sharedBy?: number;
}

function readLlama(config: ConfigReader, context: number, family: Family): LlamaSpec {
  config.only('hidden_act', ['silu', 'swish'], 'silu');
  const width = config.size('hidden_size');
  const heads = config.size('num_attention_heads');
  assertContext(context, config.size('max_position_embeddings'), 'max_position_embeddings');
  const { window, bias, queryKeyNorm = false } = family;
  config.layersAre(window === undefined ? 'full_attention' : 'sliding_attention');
  const none = { queryKeyValue: false, attentionOutput: false, feedforward: false };
  return {
    architecture: 'llama',
    vocabulary: config.size('vocab_size'),
    width,
    layers: config.size('num_hidden_layers'),
    heads,
    keyValueHeads: config.size('num_key_value_heads', family.sharedBy ?? heads),
    headSize: config.size('head_dim', family.headSize ?? Math.floor(width / heads)),
    ffn: config.size('intermediate_size'),
    context,
    normEpsilon: config.positive('rms_norm_eps', 1e-6),
    rope: readRope(config),
    tied: config.flag('tie_word_embeddings', false),
    bias: bias ?? none,
    queryKeyNorm,
    ...(window === undefined ? {} : { window }),
    deviation: config.positive('initializer_range', 0.02),
  };
}

function readGpt2(config: ConfigReader, context: number): Gpt2Spec {
  config.only('scale_attn_weights', [true], true);
  config.only('scale_attn_by_inverse_layer_idx', [false], false);
  config.only('add_cross_attention', [false], false);
  const named = {
    gelu: 'gelu',
    gelu_new: 'gelu-tanh',
    gelu_fast: 'gelu-tanh',
    gelu_pytorch_tanh: 'gelu-tanh',
    relu: 'relu',
  } as const;
  const activation = config.only('activation_function', Object.keys(named), 'gelu_new');
  const width = config.size('n_embd');
  const positions = config.size('n_positions');
  assertContext(context, positions, 'n_positions');
  return {
    architecture: 'gpt2',
    vocabulary: config.size('vocab_size'),
    width,
    layers: config.size('n_layer'),
    heads: config.size('n_head'),
    ffn: config.size('n_inner', 4 * width),
    context,
    positions,
    normEpsilon: config.positive('layer_norm_epsilon', 1e-5),
    activation: named[activation as keyof typeof named],
    tied: config.flag('tie_word_embeddings', true),
    deviation: config.positive('initializer_range', 0.02),
  };
}

/** Reads rotary positions: `rope_parameters` in newer files, `rope_theta` and `rope_scaling` in older ones. */
function readRope(config: ConfigReader): LlamaSpec['rope'] {
  config.only('partial_rotary_factor', [1], 1);
  config.only('rope_interleaved', [false], false);
  const base = config.positive('rope_theta', 10_000);
  const originalContext = config.optionalSize('original_max_position_embeddings');
  const [newer, older] = ['rope_parameters', 'rope_scaling'].map((key) => {
    const members = config.object(key);
    return members && readRopeMembers(new ConfigReader(members, `${key}.`), base, originalContext);
  });
  if (newer && older && JSON.stringify(newer.scaling) !== JSON.stringify(older.scaling))
    throw wrong('rope_scaling and rope_parameters of config.json differ', 'rope_scaling');
  return newer ?? older ?? { base };
}

function readRopeMembers(
  rope: ConfigReader,
  base: number,
  originalContext: number | undefined,
): LlamaSpec['rope'] {
  rope.only('partial_rotary_factor', [1], 1);
  const type = rope.text('rope_type', rope.text('type', 'default'));
  const scaling = readScaling(rope, type, originalContext);
  const theta = rope.positive('rope_theta', base);
  rope.finish();
  return scaling ? { base: theta, scaling } : { base: theta };
}

function readScaling(
  rope: ConfigReader,
  type: string,
  originalContext: number | undefined,
): RopeScaling | undefined {
  if (type === 'default') return undefined;
  if (type === 'linear') return { type, factor: rope.positive('factor') };
  if (type === 'llama3') {
    return {
      type,
      factor: rope.positive('factor'),
      lowFrequencyFactor: rope.positive('low_freq_factor'),
      highFrequencyFactor: rope.positive('high_freq_factor'),
      originalContext: rope.size('original_max_position_embeddings', originalContext),
    };
  }
  throw rope.refusal('rope_type', type);
}

/** Reads options one by one, and keeps track of those read. */
class ConfigReader {
  readonly #config: Readonly<Record<string, unknown>>;
  readonly #at: string;
  readonly #read = new Set<string>();

  constructor(config: Readonly<Record<string, unknown>>, at = '') {
    this.#config = config;
    this.#at = at;
  }

  /** Returns the option; undefined if absent or null. */
  #take(key: string): unknown {
    this.#read.add(key);
    return this.#config[key] ?? undefined;
  }

  /** Returns false if the option is null, which turns it off; absence means the default. */
  takes(key: string): boolean {
    this.#read.add(key);
    return this.#config[key] !== null;
  }

  #checked<T>(key: string, isGood: (value: unknown) => value is T, fallback: T | undefined): T {
    const value = this.#take(key) ?? fallback;
    if (value === undefined) throw wrong(`config.json lacks ${this.#at}${key}`, this.#at + key);
    if (!isGood(value)) throw this.refusal(key, value);
    return value;
  }

  size(key: string, fallback?: number): number {
    return this.#checked(key, isSize, fallback);
  }

  optionalSize(key: string): number | undefined {
    return this.#take(key) === undefined ? undefined : this.size(key);
  }

  positive(key: string, fallback?: number): number {
    return this.#checked(key, isPositive, fallback);
  }

  flag(key: string, fallback: boolean): boolean {
    return this.#checked(key, (value) => typeof value === 'boolean', fallback);
  }

  text(key: string, fallback: string): string {
    return this.#checked(key, (value) => typeof value === 'string', fallback);
  }

  object(key: string): Readonly<Record<string, unknown>> | undefined {
    return this.#take(key) === undefined ? undefined : this.#checked(key, isObject, undefined);
  }

  /** Returns the option, which must be one of the supported values. */
  only<T>(key: string, built: readonly T[], fallback: T): T {
    const isBuilt = (value: unknown): value is T => built.some((one) => one === value);
    return this.#checked(key, isBuilt, fallback);
  }

  /** Throws if only some layers have attention windows, which is not supported. */
  refuseWindows(): void {
    this.only('use_sliding_window', [false], false);
    for (const key of ['sliding_window', 'max_window_layers']) this.#read.add(key);
  }

  /** Throws unless every layer in `layer_types` is of this type. */
  layersAre(type: 'full_attention' | 'sliding_attention'): void {
    const types = this.#take('layer_types');
    const isUniform = Array.isArray(types) && types.every((each) => each === type);
    if (types !== undefined && !isUniform) throw this.refusal('layer_types', types);
  }

  refusal(key: string, value: unknown): ConfigError {
    return wrong(`${this.#at}${key} ${JSON.stringify(value)} is not supported`, this.#at + key);
  }

  /** Throws for options that were not read, unless they have no effect or are turned off. */
  finish(): void {
    for (const [key, value] of Object.entries(this.#config)) {
      const isOff = value === null || value === false;
      const isInert = WITHOUT_EFFECT.has(key) || ALSO_WITHOUT_EFFECT.test(key);
      if (!isOff && !isInert && !this.#read.has(key)) throw this.refusal(key, value);
    }
  }
}

function assertContext(context: number, most: number, key: string): void {
  if (context <= most) return;
  throw new ConfigError(
    'model/context',
    `a context of ${context} tokens is longer than the model's ${key} of ${most}`,
    { hint: 'choose a shorter context' },
  );
}

const isSize = isWithin(1, 0x7fff_ffff);

const isPositive = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0;

const wrong = (message: string, at?: string, cause?: unknown): ConfigError =>
  new ConfigError('model/config', message, {
    hint: `use a model of one of the families ${Object.keys(families).join(', ')}`,
    cause,
    ...(at === undefined ? {} : { data: { at } }),
  });
