/**
 * Opens a published model, from a folder of Hugging Face files or a GGUF file: shape, weights by name, tokenizer.
 * Opening reads no weights, and names anything in the files that is not supported.
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
  readJson,
  type StoredTensors,
  weightFiles,
} from './weights.ts';

export interface Pretrained extends Omit<ModelParts, 'template'> {
  /** Name for messages. */
  readonly name: string;
  /** Architecture and sizes, for the context it was opened with. */
  readonly spec: DecoderSpec;
  /** Longest context of the model, in tokens. */
  readonly longestContext: number;
  readonly tokenizer: PublishedTokenizer;
  /** The chat template in Jinja, if the model has one. */
  readonly chatTemplate: string | undefined;
}

export interface OpenPretrained {
  /** Context in tokens; default the model's longest. */
  readonly context?: number | undefined;
}

const CONFIG = 'config.json';
const TOKENIZER = 'tokenizer.json';
const TOKENIZER_CONFIG = 'tokenizer_config.json';
const TEMPLATE = 'chat_template.jinja';

/**
 * Opens the model in these files, or in the single file `gguf`. Throws a ConfigError: `model/config`,
 * `model/context`, `model/weights`, `model/gguf`, `model/tokenizer`.
 */
export async function openPretrained(
  files: ModelFiles,
  { context, gguf }: OpenPretrained & { readonly gguf?: string | undefined } = {},
): Promise<Pretrained> {
  const opened = gguf === undefined ? await openFolder(files) : await openFile(files, gguf);
  const longestContext = contextOf(opened.config);
  const spec = readModelConfig(opened.config, { context: context ?? longestContext });
  const { vocabulary } = spec;
  const tokenizer = createTokenizer(opened.tokenizerFiles, { name: files.name, vocabulary });
  const { chat_template: template } = opened.tokenizerFiles.config;
  return {
    ...opened,
    name: files.name,
    spec,
    longestContext,
    tokenizer,
    tensors: matchTensors(opened.tensors, modelOf(spec).tensors, {
      file: files.name,
      prefix: spec.architecture === 'gpt2' ? 'transformer.' : 'model.',
      tiedHead: spec.tied ? 'lm_head.weight' : undefined,
    }),
    chatTemplate: opened.template ?? (typeof template === 'string' ? template : undefined),
  };
}

interface ModelParts {
  /** Names of its files, in order. The same bytes of all of them are the same model. */
  readonly files: readonly string[];
  /** The contents of `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Tensors by name; those of a `Pretrained` are checked against the model's shapes. */
  readonly tensors: StoredTensors;
  /** The contents of `tokenizer.json` and `tokenizer_config.json`. */
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
  const external = await readTokenizer(files);
  const tokenizerFiles = external ?? readGgufTokenizer(file.metadata, source.name);
  return {
    files: external ? [name, TOKENIZER] : [name],
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
