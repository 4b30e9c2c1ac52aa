/**
 * A published model, from a folder of Hugging Face's files or a GGUF file: shape, weights by name, tokenizer. Opening
 * reads no weights and refuses by name what cannot be used.
 */
import { ConfigError } from '../base/errors.ts';
import { readModelConfig } from '../model/architectures/config.ts';
import { modelOf } from '../model/architectures/table.ts';
import type { DecoderSpec } from '../run/spec/model-spec.ts';
import { openGguf, readGgufModel } from './gguf.ts';
import {
  createTokenizer,
  type PublishedTokenizer,
  readGgufTokenizer,
  type TokenizerFiles,
} from './tokenizer.ts';
import type { ModelFiles } from './weights.ts';
import {
  matchTensors,
  openSafetensors,
  readFinite,
  readJson,
  type StoredTensors,
  weightFiles,
} from './weights.ts';

export interface Pretrained {
  /** What to call it in front of a person. */
  readonly name: string;
  /** The files it is made of, in order: whoever has the same bytes of each has the same model. */
  readonly files: readonly string[];
  /** The architecture and its sizes, for windows of the context it was opened with. */
  readonly spec: DecoderSpec;
  /** The longest context the model was made for. */
  readonly longestContext: number;
  /** Everything that `config.json` says. */
  readonly config: Readonly<Record<string, unknown>>;
  /** By the model's own names, each of the model's shape. */
  readonly tensors: StoredTensors;
  readonly tokenizer: PublishedTokenizer;
  /** The template of chats in Jinja, where the model has one. */
  readonly chatTemplate: string | undefined;
  /** The contents of `tokenizer.json` and `tokenizer_config.json`. */
  readonly tokenizerFiles: TokenizerFiles;
}

export interface OpenPretrained {
  /** Tokens of a window; the model's longest context when left out. */
  readonly context?: number | undefined;
}

const CONFIG = 'config.json';
const TOKENIZER = 'tokenizer.json';
const TOKENIZER_CONFIG = 'tokenizer_config.json';
const TEMPLATE = 'chat_template.jinja';

/**
 * Opens the model in these files; `gguf` names the one that holds everything. Throws a ConfigError: `model/config`,
 * `model/context`, `model/weights`, `model/gguf`, `model/tokenizer`.
 */
export async function openPretrained(
  files: ModelFiles,
  { context, gguf }: OpenPretrained & { readonly gguf?: string | undefined } = {},
): Promise<Pretrained> {
  const found = gguf === undefined ? await openFolder(files) : await openFile(files, gguf);
  const longestContext = contextOf(found.config);
  const spec = readModelConfig(found.config, { context: context ?? longestContext });
  const { vocabulary } = spec;
  const tokenizer = createTokenizer(found.tokenizerFiles, { name: files.name, vocabulary });
  const { chat_template: template } = found.tokenizerFiles.config;
  return {
    ...found,
    name: files.name,
    spec,
    longestContext,
    tokenizer,
    tensors: matchTensors(found.tensors, modelOf(spec).tensors, {
      file: files.name,
      prefix: spec.architecture === 'gpt2' ? 'transformer.' : 'model.',
      tiedHead: spec.tied ? 'lm_head.weight' : undefined,
    }),
    chatTemplate: found.template ?? (typeof template === 'string' ? template : undefined),
  };
}

/** The numbers of all tensors, one after the other; `onTensor` is told how many bytes of the files have been read. */
export async function readWeights(
  { tensors }: Pick<Pretrained, 'tensors'>,
  { onBytes, signal }: { onBytes?: (bytes: number) => void; signal?: AbortSignal } = {},
): Promise<ReadonlyMap<string, Float32Array>> {
  const weights = new Map<string, Float32Array>();
  for (const [name, tensor] of tensors) {
    signal?.throwIfAborted();
    weights.set(name, await readFinite(name, tensor));
    onBytes?.(tensor.bytes);
  }
  return weights;
}

interface ModelParts {
  readonly files: readonly string[];
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: StoredTensors;
  readonly tokenizerFiles: TokenizerFiles;
  readonly template: string | undefined;
}

async function openFolder(files: ModelFiles): Promise<ModelParts> {
  const config = await need(files, CONFIG);
  const weights = await weightFiles(files);
  const tensors = await openSafetensors(files, weights);
  const tokenizerFiles = await readTokenizer(files);
  if (!tokenizerFiles) throw missing(files, TOKENIZER);
  const template = await readText(files, TEMPLATE);
  return {
    files: [CONFIG, TOKENIZER, ...weights],
    config,
    tensors,
    tokenizerFiles,
    template,
  };
}

async function openFile(files: ModelFiles, name: string): Promise<ModelParts> {
  const source = await files.open(name);
  if (!source) throw missing(files, name);
  const file = await openGguf(source);
  const beside = await readTokenizer(files);
  const tokenizerFiles = beside ?? readGgufTokenizer(file.metadata, source.name);
  return {
    files: beside ? [name, TOKENIZER] : [name],
    ...readGgufModel(file, source.name),
    tokenizerFiles,
    template: undefined,
  };
}

async function readTokenizer(files: ModelFiles): Promise<TokenizerFiles | undefined> {
  const source = await files.open(TOKENIZER);
  if (!source) return undefined;
  const config = await files.open(TOKENIZER_CONFIG);
  return {
    tokenizer: await readJson(source),
    config: config ? ((await readJson(config)) as Readonly<Record<string, unknown>>) : {},
  };
}

async function readText(files: ModelFiles, name: string): Promise<string | undefined> {
  const source = await files.open(name);
  return source && new TextDecoder().decode(await source.read(0, source.size));
}

async function need(files: ModelFiles, name: string): Promise<Readonly<Record<string, unknown>>> {
  const source = await files.open(name);
  if (!source) throw missing(files, name);
  return (await readJson(source)) as Readonly<Record<string, unknown>>;
}

const missing = (files: ModelFiles, name: string): ConfigError =>
  new ConfigError('model/files', `${files.name} has no ${name}`, {
    hint: `name a folder with ${CONFIG}, ${TOKENIZER} and model.safetensors, or a .gguf file`,
  });

function contextOf(config: Readonly<Record<string, unknown>>): number {
  const { max_position_embeddings: most, n_positions: positions } = config;
  const longest = most ?? positions;
  return typeof longest === 'number' ? longest : 0;
}
