/**
 * Reads a GGUF file as the published model it was made from. llama.cpp renames tensors, transposes matrices and
 * reorders the rows of queries and keys; reading undoes that.
 */
import { type GGUFParseOutput, gguf } from '@huggingface/gguf';
import { ConfigError, safeLine, wordsOf } from '../base/errors.ts';
import {
  type ByteSource,
  dequantize,
  type QuantizedFormat,
  quantizedFormats,
  type StoredTensor,
  type StoredTensors,
} from './weights.ts';

export interface GgufFile {
  readonly metadata: ReadonlyMap<string, unknown>;
  /** Tensors by name, with row-major shapes. */
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

/** Opens a GGUF file. Throws a ConfigError (`model/gguf`) if it is invalid, truncated or of an unsupported format. */
export async function openGguf(source: ByteSource): Promise<GgufFile> {
  const { metadata, tensorInfos, tensorDataOffset, littleEndian } = await parse(source);
  if (!littleEndian) throw wrong(source, 'big-endian files are not supported');
  const start = Number(tensorDataOffset);
  const tensors = new Map(
    tensorInfos.map((info) => [info.name, tensorOf(source, info, start)] as const),
  );
  return { metadata: new Map(Object.entries(metadata)), tensors };
}

type Info = GGUFParseOutput['tensorInfos'][number];

function tensorOf(source: ByteSource, info: Info, start: number): StoredTensor {
  const { name, dtype } = info;
  const format = quantizedFormats.get(dtype);
  if (!format) {
    const known = [...quantizedFormats.values()].map((one) => one.name).join(', ');
    throw wrong(source, `tensor ${safeLine(name)} has the unsupported number format ${dtype}`, {
      hint: `use a file in one of ${known}`,
    });
  }
  const shape = info.shape.map(Number).reverse();
  const size = shape.reduce((product, dim) => product * dim, 1);
  const from = start + Number(info.offset);
  const to = from + (size / format.values) * format.bytes;
  const row = shape.at(-1) ?? 1;
  if (row % format.values !== 0) {
    throw wrong(
      source,
      `tensor ${safeLine(name)} has rows of ${row} values, not whole ${format.name} blocks`,
    );
  }
  if (!(to <= source.size)) {
    throw wrong(
      source,
      `tensor ${safeLine(name)} ends at byte ${to}, but the file has ${source.size} bytes`,
      { hint: 'the file is truncated: download it again' },
    );
  }
  return {
    shape,
    format: format.name,
    bytes: to - from,
    read: () => read(source, format, from, to),
  };
}

const read = async (
  source: ByteSource,
  format: QuantizedFormat,
  from: number,
  to: number,
): Promise<Float32Array> => dequantize(format, await source.read(from, to));

/** Runs the parser, which fetches byte ranges of a URL; the ranges are served from the source. */
async function parse(source: ByteSource): Promise<GGUFParseOutput<{ strict: false }>> {
  const answer = async (_: unknown, init?: unknown): Promise<Response> => {
    const { headers: requestHeaders } = init as { headers: { Range: string } };
    const [first, last] = requestHeaders.Range.replace('bytes=', '').split('-').map(Number);
    const from = Math.min(first!, source.size);
    const bytes = await source.read(from, Math.min(last! + 1, source.size));
    const headers = { 'content-range': `bytes ${first}-${last}/${source.size}` };
    return new Response(bytes as BodyInit, { status: 206, headers });
  };
  try {
    return (await gguf('https://file.invalid/', {
      fetch: answer,
    })) as unknown as GGUFParseOutput<{ strict: false }>;
  } catch (cause) {
    const reason = wordsOf(cause);
    throw wrong(source, safeLine(reason), { hint: 'name a GGUF file that llama.cpp reads', cause });
  }
}

const wrong = (
  source: ByteSource,
  reason: string,
  { hint = 'download the file again', cause }: { hint?: string; cause?: unknown } = {},
): ConfigError => new ConfigError('model/gguf', `${source.name}: ${reason}`, { hint, cause });

/** How llama.cpp's names and layouts map to those of a published model family. */
export interface Family {
  /** Builds this family's `config.json` from metadata. */
  config(metadata: Metadata, tensors: StoredTensors): Record<string, unknown>;
  readonly outside: Readonly<Record<string, string>>;
  readonly layer: string;
  readonly inside: Readonly<Record<string, string>>;
  /** Layers with rows reordered within each head, with the metadata key of the number of heads. */
  readonly interleaved?: Readonly<Record<string, string>>;
  /** Layers stored as [in, out] in published files and as [out, in] in GGUF. */
  readonly transposed?: readonly string[];
}

const llamaNames = {
  outside: {
    token_embd: 'model.embed_tokens',
    output_norm: 'model.norm',
    output: 'lm_head',
  },
  layer: 'model.layers',
  inside: {
    attn_norm: 'input_layernorm',
    attn_q: 'self_attn.q_proj',
    attn_k: 'self_attn.k_proj',
    attn_v: 'self_attn.v_proj',
    attn_output: 'self_attn.o_proj',
    attn_q_norm: 'self_attn.q_norm',
    attn_k_norm: 'self_attn.k_norm',
    ffn_norm: 'post_attention_layernorm',
    ffn_gate: 'mlp.gate_proj',
    ffn_up: 'mlp.up_proj',
    ffn_down: 'mlp.down_proj',
  },
};

/** Supported families by their GGUF name. */
export const families: Readonly<Record<string, Family>> = {
  llama: {
    ...llamaNames,
    config: (metadata, tensors) => ({
      ...llamaConfig('llama', metadata, tensors),
      attention_bias: tensors.has('blk.0.attn_output.bias'),
      mlp_bias: tensors.has('blk.0.ffn_down.bias'),
    }),
    interleaved: { attn_q: 'attention.head_count', attn_k: 'attention.head_count_kv' },
  },
  qwen2: { ...llamaNames, config: (...args) => llamaConfig('qwen2', ...args) },
  qwen3: {
    ...llamaNames,
    config: (metadata, tensors) => ({
      ...llamaConfig('qwen3', metadata, tensors),
      attention_bias: tensors.has('blk.0.attn_q.bias'),
    }),
  },
  gpt2: {
    outside: {
      token_embd: 'transformer.wte',
      position_embd: 'transformer.wpe',
      output_norm: 'transformer.ln_f',
      output: 'lm_head',
    },
    layer: 'transformer.h',
    inside: {
      attn_norm: 'ln_1',
      attn_qkv: 'attn.c_attn',
      attn_output: 'attn.c_proj',
      ffn_norm: 'ln_2',
      ffn_up: 'mlp.c_fc',
      ffn_down: 'mlp.c_proj',
    },
    transposed: ['attn_qkv', 'attn_output', 'ffn_up', 'ffn_down'],
    config: gpt2Config,
  },
};

export interface GgufModel {
  /** The model's `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Tensors by their published names. */
  readonly tensors: StoredTensors;
}

/** Reads the model in a GGUF file. Throws a ConfigError (`model/gguf`) for an unknown family or missing metadata. */
export function readGgufModel({ metadata, tensors }: GgufFile, file: string): GgufModel {
  const name = metadata.get('general.architecture');
  const family =
    typeof name === 'string' && Object.hasOwn(families, name) ? families[name] : undefined;
  if (!family) {
    throw new ConfigError('model/gguf', `${file} holds a ${safeLine(String(name))} model`, {
      hint: `use a model of one of the families ${Object.keys(families).join(', ')}`,
    });
  }
  if (tensors.has('rope_freqs.weight')) {
    throw new ConfigError(
      'model/gguf',
      `${file} stores scaled rotary positions as a table, which is not supported`,
      {
        hint: "use the model's safetensors, whose config.json names the scaling",
      },
    );
  }
  const read = new Metadata(metadata, String(name), file);
  return {
    config: family.config(read, tensors),
    tensors: new Map([...tensors].map(([tensor, stored]) => publish(family, read, tensor, stored))),
  };
}

/** Returns a tensor under its published name and in its published layout. Unknown names stay, and are refused later. */
function publish(
  family: Family,
  metadata: Metadata,
  name: string,
  stored: StoredTensor,
): readonly [string, StoredTensor] {
  const [, layer, part = '', kind] = /^(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)$/.exec(name) ?? [];
  const names = layer === undefined ? family.outside : family.inside;
  if (!Object.hasOwn(names, part)) return [name, stored];
  const prefix = layer === undefined ? '' : `${family.layer}.${layer}.`;
  const published = `${prefix}${names[part]}.${kind}`;
  const heads = family.interleaved?.[part];
  if (heads !== undefined) return [published, separate(stored, metadata.size(heads))];
  const isTransposed = kind === 'weight' && family.transposed?.includes(part);
  return [published, isTransposed ? transposedTensor(stored) : stored];
}

/** Moves row 2 j + h of a head back to row h * size / 2 + j: llama.cpp rotates neighbors, published models halves. */
const separate = (stored: StoredTensor, heads: number): StoredTensor => ({
  ...stored,
  read: async () => {
    const values = await stored.read();
    const [rows, width = 1] = stored.shape as [number, number?];
    const half = rows / heads / 2;
    const out = new Float32Array(values.length);
    for (let row = 0; row < rows; row++) {
      const [head, within] = [Math.floor(row / (2 * half)), row % (2 * half)];
      const to = head * 2 * half + (within % 2) * half + (within >> 1);
      out.set(values.subarray(row * width, (row + 1) * width), to * width);
    }
    return out;
  },
});

const transposedTensor = (stored: StoredTensor): StoredTensor => ({
  ...stored,
  shape: [...stored.shape].reverse(),
  read: async () => transposed(await stored.read(), stored.shape),
});

/** Returns the values of a matrix column by column. */
export function transposed(
  values: Float32Array,
  [rows = 1, columns = 1]: readonly number[],
): Float32Array {
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      out[column * rows + row] = values[row * columns + column]!;
    }
  }
  return out;
}

function llamaConfig(
  type: string,
  metadata: Metadata,
  tensors: StoredTensors,
): Record<string, unknown> {
  const heads = metadata.size('attention.head_count');
  const width = metadata.size('embedding_length');
  return {
    model_type: type,
    hidden_size: width,
    num_hidden_layers: metadata.size('block_count'),
    num_attention_heads: heads,
    num_key_value_heads: metadata.size('attention.head_count_kv', heads),
    head_dim: metadata.size('attention.key_length', Math.floor(width / heads)),
    intermediate_size: metadata.size('feed_forward_length'),
    max_position_embeddings: metadata.size('context_length'),
    rms_norm_eps: metadata.number('attention.layer_norm_rms_epsilon'),
    rope_theta: metadata.number('rope.freq_base', 10_000),
    vocab_size: vocabularyOf(tensors),
    tie_word_embeddings: !tensors.has('output.weight'),
    ...metadata.ropeScaling(),
  };
}

function gpt2Config(metadata: Metadata, tensors: StoredTensors): Record<string, unknown> {
  return {
    model_type: 'gpt2',
    n_embd: metadata.size('embedding_length'),
    n_layer: metadata.size('block_count'),
    n_head: metadata.size('attention.head_count'),
    n_inner: metadata.size('feed_forward_length'),
    n_positions: metadata.size('context_length'),
    layer_norm_epsilon: metadata.number('attention.layer_norm_epsilon'),
    activation_function: 'gelu_new',
    vocab_size: vocabularyOf(tensors),
    tie_word_embeddings: !tensors.has('output.weight'),
  };
}

const vocabularyOf = (tensors: StoredTensors): number =>
  tensors.get('token_embd.weight')?.shape[0] ?? 0;

/** Reads the metadata below the name of the architecture. */
class Metadata {
  readonly #values: ReadonlyMap<string, unknown>;
  readonly #architecture: string;
  readonly #file: string;

  constructor(values: ReadonlyMap<string, unknown>, architecture: string, file: string) {
    this.#values = values;
    this.#architecture = architecture;
    this.#file = file;
  }

  number(key: string, fallback?: number): number {
    const at = `${this.#architecture}.${key}`;
    const value = this.#values.get(at) ?? fallback;
    const number = typeof value === 'bigint' ? Number(value) : value;
    if (typeof number === 'number' && Number.isFinite(number)) return number;
    throw this.#refusal(`${at} is not a number`);
  }

  size(key: string, fallback?: number): number {
    const value = this.number(key, fallback);
    if (Number.isSafeInteger(value) && value > 0) return value;
    throw this.#refusal(`${this.#architecture}.${key} is ${value}`);
  }

  /** The `rope_scaling` entry of `config.json`. */
  ropeScaling(): Record<string, unknown> {
    const type = this.#values.get(`${this.#architecture}.rope.scaling.type`) ?? 'none';
    if (type === 'none') return {};
    if (type !== 'linear') {
      throw this.#refusal(`rotary positions scaled by ${safeLine(String(type))} are not supported`);
    }
    return { rope_scaling: { rope_type: 'linear', factor: this.number('rope.scaling.factor') } };
  }

  #refusal(what: string): ConfigError {
    return new ConfigError('model/gguf', `${this.#file}: ${what}`, {
      hint: 'use a file made by llama.cpp, or the safetensors of the model',
    });
  }
}
