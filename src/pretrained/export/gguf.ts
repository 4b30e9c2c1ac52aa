/** Exports a trained model as a GGUF file for llama.cpp, with the adapter merged. `pretrained/gguf.ts` reads them. */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { DecoderSpec } from '../../run/spec/model-spec.ts';
import { numberToHalf, toHalves } from '../../tensor/dtype.ts';
import { type Family, families, transposed } from '../gguf.ts';
import type { Pretrained } from '../pretrained.ts';
import { splitterOf } from '../tokenizer.ts';
import {
  type Learned,
  type LearnedTensor,
  learnedTensors,
  type OutFile,
  rawBytes,
  tokenText,
} from './folders.ts';

/** A metadata value with its type. */
export type GgufValue =
  | { readonly u32: number }
  | { readonly f32: number }
  | { readonly flag: boolean }
  | { readonly text: string }
  | { readonly texts: readonly string[] }
  | { readonly i32s: readonly number[] };

export type GgufFormat = keyof typeof formats;

export interface GgufTensor {
  readonly name: string;
  /** Row-major dimensions; the file stores them in reverse. */
  readonly shape: readonly number[];
  readonly format: GgufFormat;
  read(): Promise<Float32Array>;
}

const BLOCK = 32;
const ALIGNMENT = 32;
const VERSION = 3;
const [U32, I32, F32, BOOL, STRING, ARRAY] = [4, 5, 6, 7, 8, 9];

/** Type number of each format in the file, and the bytes of `count` values. */
const formats = {
  f32: { type: 0, bytes: (values: number) => 4 * values, encode: rawBytes },
  f16: {
    type: 1,
    bytes: (values: number) => 2 * values,
    encode: (values: Float32Array) => rawBytes(toHalves(values)),
  },
  q8_0: { type: 8, bytes: (values: number) => (values / BLOCK) * (BLOCK + 2), encode: toQ8 },
} as const;

/** Encodes blocks of 32 values: the scale (largest magnitude / 127) as f16, then 32 int8, ties away from zero. */
function toQ8(values: Float32Array): Uint8Array {
  const out = new Uint8Array(formats.q8_0.bytes(values.length));
  const view = new DataView(out.buffer);
  for (let at = 0, to = 0; at < values.length; at += BLOCK, to += BLOCK + 2) {
    let most = 0;
    for (let i = at; i < at + BLOCK; i++) most = Math.max(most, Math.abs(values[i]!));
    const unit = Math.fround(most / 127);
    const inverse = unit === 0 ? 0 : Math.fround(1 / unit);
    view.setUint16(to, numberToHalf(unit), true);
    for (let i = 0; i < BLOCK; i++) {
      const scaled = Math.fround(values[at + i]! * inverse);
      view.setInt8(to + 2 + i, Math.sign(scaled) * Math.round(Math.abs(scaled)));
    }
  }
  return out;
}

const sizeOf = ({ shape, format }: GgufTensor): number =>
  formats[format].bytes(shape.reduce((a, b) => a * b, 1));

const padded = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Writes the file in pieces. */
async function* writeGguf(
  metadata: ReadonlyMap<string, GgufValue>,
  tensors: readonly GgufTensor[],
): AsyncGenerator<Uint8Array, void> {
  const head = concatBytes(
    utf8('GGUF'),
    u32(VERSION),
    u64(tensors.length),
    u64(metadata.size),
    ...[...metadata].flatMap(([name, value]) => [text(name), valued(value)]),
    ...tensorInfos(tensors),
  );
  yield head;
  yield new Uint8Array(padded(head.length) - head.length);
  for (const tensor of tensors) {
    const bytes = formats[tensor.format].encode(await tensor.read());
    if (bytes.length !== sizeOf(tensor))
      throw new TypeError(`${tensor.name} has an unexpected size`);
    yield bytes;
    yield new Uint8Array(padded(bytes.length) - bytes.length);
  }
}

function tensorInfos(tensors: readonly GgufTensor[]): readonly Uint8Array[] {
  let offset = 0;
  return tensors.flatMap((tensor) => {
    const { name, shape, format } = tensor;
    const dims = [...shape].reverse().map(u64);
    const parts = [text(name), u32(shape.length), ...dims, u32(formats[format].type), u64(offset)];
    offset += padded(sizeOf(tensor));
    return parts;
  });
}

function valued(value: GgufValue): Uint8Array {
  if ('u32' in value) return concatBytes(u32(U32!), u32(value.u32));
  if ('f32' in value) return concatBytes(u32(F32!), rawBytes(Float32Array.of(value.f32)));
  if ('flag' in value) return concatBytes(u32(BOOL!), Uint8Array.of(value.flag ? 1 : 0));
  if ('text' in value) return concatBytes(u32(STRING!), text(value.text));
  if ('texts' in value) {
    const { texts } = value;
    return concatBytes(u32(ARRAY!), u32(STRING!), u64(texts.length), ...texts.map(text));
  }
  const { i32s } = value;
  return concatBytes(u32(ARRAY!), u32(I32!), u64(i32s.length), ...i32s.map(u32));
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

function text(value: string): Uint8Array {
  const bytes = utf8(value);
  return concatBytes(u64(bytes.length), bytes);
}

const FILE_TYPES: { readonly [F in GgufFormat]: number } = { f32: 0, f16: 1, q8_0: 7 };
/** Token types of GGUF. */
const [NORMAL, CONTROL, USER_DEFINED, UNUSED] = [1, 3, 4, 5] as const;

/** Returns a GGUF file. Throws a ConfigError (`export/gguf`) if the format cannot express the model or tokenizer. */
export function ggufFile(learned: Learned, type: GgufFormat, name: string): OutFile {
  const { pretrained } = learned;
  const { spec, config } = pretrained;
  assertSayable(spec);
  const known = String(config.model_type);
  const architecture = known === 'mistral' ? 'llama' : known;
  const family = families[architecture]!;
  const tensors = learnedTensors(learned).map((tensor) => stored(tensor, family, spec, type));
  const metadata = new Map<string, GgufValue>([
    ['general.architecture', { text: architecture }],
    ['general.type', { text: 'model' }],
    ['general.name', { text: name }],
    ['general.file_type', { u32: FILE_TYPES[type] }],
    ['general.quantization_version', { u32: 2 }],
    ...sizesOf(pretrained).map(([key, value]) => [`${architecture}.${key}`, value] as const),
    ...tokenizerOf(pretrained),
  ]);
  return { name, pieces: () => writeGguf(metadata, tensors) };
}

function assertSayable(spec: DecoderSpec): void {
  if (spec.architecture === 'gpt2') {
    if (spec.activation !== 'gelu-tanh') throw unsayable(`the activation ${spec.activation}`);
    return;
  }
  if (spec.rope.scaling?.type === 'llama3') throw unsayable('positions scaled as in Llama 3');
  if (spec.window !== undefined) throw unsayable('a window of positions');
}

const unsayable = (what: string): ConfigError =>
  new ConfigError('export/gguf', `the GGUF export cannot express ${what}`, {
    hint: "export a folder with --merged, and convert it with llama.cpp's converter",
  });

/** Returns a tensor under llama.cpp's name and in its row order. */
function stored(
  { name, shape, read }: LearnedTensor,
  family: Family,
  spec: DecoderSpec,
  type: GgufFormat,
): GgufTensor {
  const [, layer, layerPart = '', kind = ''] =
    new RegExp(`^(?:${family.layer}\\.(\\d+)\\.)?(.+)\\.(weight|bias)$`).exec(name) ?? [];
  const names = Object.entries(layer === undefined ? family.outside : family.inside);
  const part = names.find(([, published]) => published === layerPart)?.[0];
  if (part === undefined) throw unsayable(`the tensor ${name}`);
  const isTransposed = kind === 'weight' && family.transposed?.includes(part) === true;
  const isMixed = family.interleaved !== undefined && Object.hasOwn(family.interleaved, part);
  const heads = part === 'attn_k' && 'keyValueHeads' in spec ? spec.keyValueHeads : spec.heads;
  const order = (values: Float32Array): Float32Array => {
    if (isTransposed) return transposed(values, shape);
    return isMixed ? interleaved(values, shape, heads) : values;
  };
  const stored = isTransposed ? [...shape].reverse() : shape;
  return {
    name: `${layer === undefined ? '' : `blk.${layer}.`}${part}.${kind}`,
    shape: stored,
    format: formatOf(stored, part, type),
    read: async () => order(await read()),
  };
}

/** Returns the format of a tensor. Vectors and positions stay f32; q8_0 needs rows of whole blocks, else f16. */
function formatOf(shape: readonly number[], part: string, type: GgufFormat): GgufFormat {
  if (shape.length === 1 || part === 'position_embd') return 'f32';
  return type === 'q8_0' && shape.at(-1)! % BLOCK !== 0 ? 'f16' : type;
}

/** Moves row h * size / 2 + j of a head to row 2 j + h: llama.cpp rotates neighbors, published models halves. */
function interleaved(
  values: Float32Array,
  [rows = 1, width = 1]: readonly number[],
  heads: number,
): Float32Array {
  const out = new Float32Array(values.length);
  const half = rows / heads / 2;
  for (let row = 0; row < rows; row++) {
    const within = row % (2 * half);
    const to = row - within + 2 * (within % half) + Math.floor(within / half);
    out.set(values.subarray(row * width, (row + 1) * width), to * width);
  }
  return out;
}

/** Returns the metadata below the name of the architecture. */
function sizesOf({ spec, longestContext }: Pretrained): readonly (readonly [string, GgufValue])[] {
  const u32 = (value: number): GgufValue => ({ u32: value });
  const { width, layers, heads, ffn, vocabulary, normEpsilon } = spec;
  const shared = [
    ['context_length', u32(longestContext)],
    ['embedding_length', u32(width)],
    ['block_count', u32(layers)],
    ['feed_forward_length', u32(ffn)],
    ['vocab_size', u32(vocabulary)],
    ['attention.head_count', u32(heads)],
  ] as const;
  if (spec.architecture === 'gpt2') {
    return [...shared, ['attention.layer_norm_epsilon', { f32: normEpsilon }]];
  }
  const { keyValueHeads, headSize, rope } = spec;
  const { scaling } = rope;
  return [
    ...shared,
    ['attention.head_count_kv', u32(keyValueHeads)],
    ['attention.key_length', u32(headSize)],
    ['attention.value_length', u32(headSize)],
    ['attention.layer_norm_rms_epsilon', { f32: normEpsilon }],
    ['rope.dimension_count', u32(headSize)],
    ['rope.freq_base', { f32: rope.base }],
    ...(scaling
      ? ([
          ['rope.scaling.type', { text: scaling.type }],
          ['rope.scaling.factor', { f32: scaling.factor }],
        ] as const)
      : []),
  ];
}

interface TokenizerJson {
  readonly added_tokens?: readonly { id: number; content: string; special?: boolean }[];
  readonly model: {
    readonly type?: string;
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (string | readonly [string, string])[];
  };
}

/** Returns the metadata of a byte-level tokenizer. */
function tokenizerOf({
  spec,
  tokenizer,
  tokenizerFiles,
  chatTemplate,
}: Pretrained): readonly (readonly [string, GgufValue])[] {
  const pre = splitterOf(tokenizerFiles.tokenizer);
  if (pre === undefined) throw unsayable('the way this tokenizer splits text');
  const { added_tokens: added = [], model } = tokenizerFiles.tokenizer as TokenizerJson;
  const texts = Array.from({ length: spec.vocabulary }, (_, id) => `[PAD${id}]`);
  const kinds: number[] = texts.map(() => UNUSED);
  for (const [token, id] of Object.entries(model.vocab)) [texts[id], kinds[id]] = [token, NORMAL];
  for (const { id, content, special } of added) {
    [texts[id], kinds[id]] = [content, special ? CONTROL : USER_DEFINED];
  }
  const { config } = tokenizerFiles;
  const named = { bos: 'bos', eos: 'eos', pad: 'padding', unk: 'unknown' };
  const specials = Object.entries(named).flatMap(([short, long]) => {
    const id = tokenizer.idOf(tokenText(config[`${short}_token`]));
    return id === undefined ? [] : [[`tokenizer.ggml.${long}_token_id`, { u32: id }] as const];
  });
  const isBegun = config.add_bos_token;
  return [
    ['tokenizer.ggml.model', { text: 'gpt2' }],
    ['tokenizer.ggml.pre', { text: pre }],
    ['tokenizer.ggml.tokens', { texts }],
    ['tokenizer.ggml.token_type', { i32s: kinds }],
    [
      'tokenizer.ggml.merges',
      { texts: model.merges.map((pair) => (typeof pair === 'string' ? pair : pair.join(' '))) },
    ],
    ...specials,
    ...(typeof isBegun === 'boolean'
      ? [['tokenizer.ggml.add_bos_token', { flag: isBegun }] as const]
      : []),
    ...(chatTemplate === undefined
      ? []
      : [['tokenizer.chat_template', { text: chatTemplate }] as const]),
  ];
}
