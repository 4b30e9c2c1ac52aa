/** Writes text with a model, token by token, for whoever shows it. */
import { ConfigError } from '../../base/errors.ts';
import { ringIn } from '../../model/architectures/rings.ts';
import { modelOf } from '../../model/architectures/table.ts';
import { type Tokenizer, tokenizers } from '../../model/data/tokens.ts';
import { gptSpec, optimizerOf } from '../../model/from-settings.ts';
import { modelLayout } from '../../model/parameters.ts';
import { type Continuation, continueText } from '../../model/sample.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import { tensorOf, tensorsOf } from '../../trainer/runtime.ts';
import { frozenOf } from '../../trainer/setup.ts';
import { createTextReader } from '../../trainer/text-reader.ts';
import { requireEngine } from '../engine/onnxruntime.ts';
import { createTrainer, physicalCores } from '../engine/trainer.ts';
import type { BaseModel } from '../pretrained/base-model.ts';

export interface TextWriter {
  readonly tokenizer: Tokenizer;
  /** Draws what follows the prompt; `onToken` is told of every token at once. */
  write(request: Continuation, onToken: (token: number) => void): Promise<void>;
  close(): Promise<void>;
}

/** What a run has learned, and what it was started with. */
export interface TrainedRun {
  /** The run's folder, or a state file. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly settings: Settings;
  readonly layout: Layout;
  readonly values: Float32Array;
}

/** A run's numbers in the order of the model that reads them, which may be a smaller tier; undefined where they are another model's. */
export function numbersFor(
  { layout, values }: Pick<TrainedRun, 'layout' | 'values'>,
  wanted: Layout,
): Float32Array | undefined {
  const left = new Map(layout.slots.map((slot) => [slot.name, slot]));
  const ordered = new Float32Array(wanted.size);
  for (const { name, shape, offset, size } of wanted.slots) {
    const slot = left.get(name);
    if (slot?.shape.join() !== shape.join()) return undefined;
    ordered.set(values.subarray(slot.offset, slot.offset + size), offset);
    left.delete(name);
  }
  return [...left.keys()].every((name) => ringIn(name) > 0) ? ordered : undefined;
}

/** Room for so many tokens at first. */
const FIRST_CAPACITY = 256;

/** With a published model and what a run has made of it; `params` are by the layout of `base.model`. */
export async function openPublishedWriter(
  base: BaseModel,
  params: Float32Array,
  threads = physicalCores(),
): Promise<TextWriter> {
  requireEngine();
  // what reads the engine is loaded where it is needed, so that all else works without it
  const { nodeRuntime: ort } = await import('../engine/sessions.ts');
  const { model, pretrained, tokenizer } = base;
  const { decoding } = modelOf(model);
  const held = tensorsOf(ort, await frozenOf({ model, frozen: base.frozen }));
  const own = modelLayout(model).slots.map(({ name, shape, offset, size }) => {
    const elements = params.subarray(offset, offset + size);
    return [name, tensorOf(ort, { elements, shape })] as const;
  });
  const reader = createTextReader({
    ort,
    decoding: decoding!,
    tensors: { ...held, ...Object.fromEntries(own) },
    capacity: pretrained.longestContext,
    first: FIRST_CAPACITY,
    threads,
  });
  return {
    tokenizer,
    write: async (request, onToken) => {
      for await (const token of continueText(reader, request)) onToken(token);
    },
    close: () => reader.close(),
  };
}

/** With a model that began from nothing. Throws a ConfigError (`sample/model`) where the settings are those of another. */
export async function openGptWriter(
  { path, settings, layout, values }: TrainedRun,
  threads: number | undefined,
): Promise<TextWriter> {
  const tokenizer = tokenizers[settings.tokens];
  const none = new Uint8Array(settings.context + 1);
  const trainer = await createTrainer({
    model: gptSpec(settings, tokenizer.vocabulary),
    optimizer: optimizerOf(settings),
    batch: 1,
    data: { kind: 'tokens', shard: none, validation: none },
    device: 'cpu',
    ...(threads !== undefined && { threads }),
  });
  const ordered = numbersFor({ layout, values }, trainer.layout);
  if (ordered === undefined) {
    await trainer.close();
    const sizes = `${layout.size} parameters, the model has ${trainer.layout.size}`;
    throw new ConfigError('sample/model', `${path} holds ${sizes}`, {
      hint: 'give the sizes it was trained with: width, layers, heads, ffn, tokens (with --set), --context, --tiers',
    });
  }
  return {
    tokenizer,
    write: async (request, onToken) => {
      const prompt = Uint8Array.from(request.prompt);
      await trainer.sample(ordered, { ...request, prompt }, onToken);
    },
    close: () => trainer.close(),
  };
}
