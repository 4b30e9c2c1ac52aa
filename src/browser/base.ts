/**
 * The base model of a run in a tab: its files are downloaded, verified against the hashes in the spec, kept in the
 * browser, and read one tensor at a time.
 */
import { ConfigError } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { type AnyModel, modelOf } from '../model/architectures/table.ts';
import { adapterOf, trainedOf } from '../model/from-settings.ts';
import type { DType } from '../model/onnx.ts';
import { partsOf } from '../model/precision.ts';
import { assertSameShape, frozenReaders, hashTokenizer } from '../pretrained/base-parts.ts';
import { BESIDE } from '../pretrained/hub-reference.ts';
import { openPretrained } from '../pretrained/pretrained.ts';
import type { PublishedTokenizer } from '../pretrained/tokenizer.ts';
import type { ByteSource } from '../pretrained/weights.ts';
import type { DecoderSpec, Precision } from '../run/spec/model-spec.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { assertSameBase, decoderIn, type Start } from '../run/spec/start.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import type { BaseCache, CachedFile } from './base-cache.ts';
import { chunkSources } from './base-chunks.ts';
import { type BaseOptions, bringFile, openBeside, sourcesOf } from './base-files.ts';
import type { BaseOffer } from './link.ts';

/** A base that is ready for training. */
export interface TabBase extends Pick<TrainerSetup, 'frozen'> {
  readonly model: AnyModel;
  readonly tokenizer: PublishedTokenizer;
}

const bytesOfBase = ({ files }: Start): number => files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Returns what of a run that starts from a published model a tab cannot train; undefined if it trains adapters. */
export function problemInTab({ start, tiers }: Pick<RunSpec, 'start' | 'tiers'>) {
  if (tiers > 0) return 'tiers of a published model';
  const trainsAll = start !== null && adapterOf(start.adapter) === undefined;
  return trainsAll ? 'all parameters of a published model' : undefined;
}

/** Returns the model that a tab trains. Throws `tab/pretrained` if the run trains more than adapters. */
export function modelInTab(
  { start, tiers }: RunSpec & { readonly start: Start },
  context: number,
  precision: Precision,
): AnyModel {
  const problem = problemInTab({ start, tiers });
  if (problem === undefined) {
    return trainedOf(decoderIn(start, context), adapterOf(start.adapter), precision);
  }
  throw new ConfigError('tab/pretrained', `this run trains ${problem}, and a tab trains adapters`, {
    hint: 'join with the program: nostrain run join naddr1…',
  });
}

/** Memory that a WebAssembly program addresses, in GiB: the engine of a tab has no more on any device. */
const MOST_MEMORY = 4;

/** Returns the most memory of a tab on this device, in bytes; browsers round what the device has, or hide it. */
export function memoryOfTab(): number {
  const { deviceMemory = MOST_MEMORY } = navigator as { readonly deviceMemory?: number };
  return Math.min(MOST_MEMORY, deviceMemory) * 2 ** 30;
}

/** Returns the offer. Throws `tab/memory` if the tab has less memory than training takes. */
export async function offerBase(
  start: Start,
  memory: number,
  { file }: BaseCache,
  limit = memoryOfTab(),
): Promise<BaseOffer> {
  if (limit < memory) {
    throw new ConfigError(
      'tab/memory',
      `training takes about ${gigabytes(memory)} of memory, and a tab here has at most ` +
        gigabytes(limit),
      {
        hint:
          'open the link on a device with more memory, or join with the program: ' +
          'nostrain run join naddr1…',
      },
    );
  }
  const sizes = await Promise.all(start.files.map((each) => file(each).size()));
  const name = start.files.map((each) => each.name).join(', ');
  return {
    name,
    memory,
    bytes: bytesOfBase(start),
    have: sizes.reduce((sum, size) => sum + size, 0),
  };
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;

/** Bytes of a number of the types that hold a frozen tensor. */
const BYTES: Readonly<Partial<Record<DType, number>>> = { f32: 4, f16: 2, i8: 1, u8: 1 };
/** Memory of the page, its engine and the program, in bytes, besides base and activations. */
const ENGINE_BYTES = 250e6;
/** Numbers of the largest logits at a time (32 MiB), with their gradient and a copy. */
const LOGITS_BYTES = 3 * 2 ** 25;

/**
 * Returns an estimate of the memory that training takes, in bytes: the quantized base twice (in JavaScript and in the
 * engine), the largest tensor in f32, and activations of a batch of `tokens` tokens.
 */
export function memoryOfTraining(
  model: AnyModel,
  { layers, width, ffn }: DecoderSpec,
  tokens: number,
): number {
  const frozen = modelOf(model).frozen ?? [];
  const sizeOf = (shape: readonly number[]) => shape.reduce((product, dim) => product * dim, 1);
  const base = frozen
    .flatMap(partsOf)
    .reduce((sum, { dtype, shape }) => sum + (BYTES[dtype] ?? 4) * sizeOf(shape), 0);
  const largest = Math.max(...frozen.map(({ shape }) => 4 * sizeOf(shape)));
  const activations = 4 * tokens * layers * (12 * width + 5 * ffn);
  return 2 * base + largest + activations + LOGITS_BYTES + ENGINE_BYTES;
}

/** Downloads what is missing of the base and opens it. Throws `base/other`, `tab/base` or `tab/quota`. */
export async function openTabBase(
  spec: RunSpec & { readonly start: Start },
  model: AnyModel,
  context: number,
  options: BaseOptions,
): Promise<TabBase> {
  const { start } = spec;
  const sources = [...sourcesOf(spec, options), ...chunkSources(spec, options)];
  const { files } = start;
  const cached = new Map<string, CachedFile>();
  let before = 0;
  for (const file of files) {
    const done = before;
    const onBytes = (have: number) => options.onProgress(done + have, bytesOfBase(start));
    cached.set(file.name, await bringFile(file, sources, { ...options, onBytes }));
    before += file.bytes;
  }
  const gguf = files.find(({ name }) => name.endsWith('.gguf'))?.name;
  const open = async (name: string): Promise<ByteSource | undefined> => {
    const file = cached.get(name);
    if (file) return file.open(name);
    const isBeside = BESIDE.includes(name) && name !== 'tokenizer.json' && gguf === undefined;
    return isBeside ? openBeside(name, sources, options) : undefined;
  };
  const pretrained = await openPretrained({ name: files[0]!.name, open }, { context, gguf });
  assertSameBase({ files, tokenizerSha256: hashTokenizer(pretrained, sha256) }, start);
  assertSameShape(pretrained.spec, start);
  return { model, tokenizer: pretrained.tokenizer, frozen: async () => frozenReaders(pretrained) };
}
