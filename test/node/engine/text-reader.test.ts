/** What tiny decoders and adapters write is what transformers and PEFT write, from a stored fixture (test/vectors/make_greedy.py). */

import { initialParameters, llama, loraModel, modelLayout, modelOf } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { nodeRuntime } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import type { Decoding } from '../../../src/model/architectures/architecture.ts';
import { frozenDecoder } from '../../../src/model/architectures/decoder.ts';
import { decodingOf } from '../../../src/model/decoding.ts';
import type { Feeds } from '../../../src/model/feeds.ts';
import { narrowFeeds } from '../../../src/model/precision.ts';
import { continueText } from '../../../src/model/sample.ts';
import { tensorsOf } from '../../../src/trainer/runtime.ts';
import { createTextReader } from '../../../src/trainer/text-reader.ts';
import { type DrawnDecoder, drawDecoder } from '../../support/drawn-decoders.ts';
import { adamwSpec, tinyLlama } from '../../support/ort-models.ts';
import { readVectors } from '../../support/vectors.ts';

interface Model {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly adapter?: { readonly rank: number; readonly alpha: number; readonly targets: string };
}
interface Text {
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

const modelsOf = (file: string) => readVectors<{ cases: readonly Model[] }>(file).cases;
const greedy = readVectors<{ decoders: readonly Text[]; adapters: readonly Text[] }>('greedy.json');
const texts = [
  ...modelsOf('decoders.json').map((model, i) => ({ ...model, ...greedy.decoders[i]! })),
  ...modelsOf('lora.json').map((model, i) => ({ ...model, ...greedy.adapters[i]! })),
];

const likeliest = { temperature: 0, seed: 1 };

/** A reader of a decoder with its adapter, beside the weights. */
function open(
  { spec, adapter, tensors }: DrawnDecoder,
  { capacity, first, isArranged }: { capacity: number; first: number; isArranged: boolean },
) {
  const model = modelOf(adapter ? loraModel(spec, adapter) : spec);
  const all = [...model.tensors, ...(model.frozen ?? [])];
  const feeds = Object.fromEntries(
    all.map(({ name, shape }) => [name, { elements: tensors.get(name)!, shape }]),
  );
  return openReader(model.decoding!, feeds, { capacity, first, isArranged });
}

function openReader(
  decoding: Decoding,
  feeds: Feeds,
  { capacity, first, isArranged }: { capacity: number; first: number; isArranged: boolean },
) {
  const arranged = isArranged ? decoding.arrange(feeds) : { feeds };
  const tensors = tensorsOf(nodeRuntime, arranged.feeds);
  const rest = 'constants' in arranged ? { constants: arranged.constants } : {};
  return createTextReader({
    ort: nodeRuntime,
    decoding,
    tensors,
    capacity,
    first,
    threads: 1,
    ...rest,
  });
}

async function write(
  reader: ReturnType<typeof open>,
  prompt: readonly number[],
  length: number,
): Promise<readonly number[]> {
  const tokens: number[] = [];
  for await (const token of continueText(reader, { ...likeliest, prompt, length })) {
    tokens.push(token);
  }
  return tokens;
}

describe.each(texts)('$name', ({ prompt, tokens, ...model }) => {
  it.each([false, true])('writes the same (arranged: %s)', async (isArranged) => {
    const longest = prompt.length + tokens.length;
    // less room at first, so that it has to grow
    const sizes = { capacity: longest, first: 7, isArranged };
    const reader = open(drawDecoder(model, longest), sizes);
    expect(await write(reader, prompt, tokens.length)).toEqual(tokens);
    // another text through the same reader; what is left of the first is not seen
    const half = [...prompt, ...tokens.slice(0, tokens.length >> 1)];
    const rest = tokens.slice(tokens.length >> 1);
    expect(await write(reader, half, rest.length)).toEqual(rest);
    await reader.close();
  });
});

/** Limits of the difference, as a share of the largest logit: products with 8 bits round the rows to 8 bits too. */
it.each([
  ['q8', 0.05],
  ['q4', 0.05],
] as const)('quantized weights are multiplied as blocks (%s)', async (precision, most) => {
  const spec = { ...tinyLlama, width: 64, headSize: 16, ffn: 96, deviation: 0.1 };
  const decoder = llama(spec);
  const params = initialParameters(spec, 3);
  const { slots } = modelLayout(spec);
  const tensors = frozenDecoder(decoder, precision);
  const feeds = tensors.map((tensor) => {
    const { offset, size } = slots.find(({ name }) => name === tensor.name)!;
    return narrowFeeds(tensor, params.subarray(offset, offset + size));
  });
  const readers = [false, true].map((isArranged) => {
    const sizes = { capacity: 12, first: 4, isArranged };
    return openReader(decodingOf(decoder, { tensors }), Object.assign({}, ...feeds), sizes);
  });
  for (const tokens of [[1, 2, 3], [7], [5], [4]]) {
    const [widened, arranged] = await Promise.all(readers.map((reader) => reader.read(tokens)));
    const differences = widened!.map((value, i) => Math.abs(value - arranged![i]!));
    const scale = Math.max(...widened!.map(Math.abs));
    expect(scale).toBeGreaterThan(0);
    expect(Math.max(...differences) / scale).toBeLessThan(most);
  }
  for (const reader of readers) await reader.close();
});

it.each([0, 8])('a trainer writes the same (text %i)', async (at) => {
  const { prompt, tokens, ...model } = texts[at]!;
  const drawn = drawDecoder(model, prompt.length + tokens.length);
  const trained = drawn.adapter ? loraModel(drawn.spec, drawn.adapter) : drawn.spec;
  const none = new Uint8Array(100);
  const trainer = await createTrainer({
    model: trained,
    optimizer: adamwSpec,
    batch: 1,
    data: { kind: 'tokens', shard: none, validation: none },
    frozen: async () =>
      Object.fromEntries([...drawn.tensors].map(([name, values]) => [name, values.slice()])),
    device: 'cpu',
  });
  try {
    const params = initialParameters(trained, 1);
    for (const { name, offset } of trainer.layout.slots) {
      params.set(drawn.tensors.get(name)!, offset);
    }
    const told: number[] = [];
    const request = { ...likeliest, prompt: Uint8Array.from(prompt), length: tokens.length };
    const text = await trainer.sample(params, request, (token) => told.push(token));
    expect([...text]).toEqual([...prompt, ...tokens]);
    expect(told).toEqual(tokens);
    // longer than the window: it goes on from the last half
    expect(await trainer.sample(params, { ...request, length: 70 })).toHaveLength(75);
  } finally {
    await trainer.close();
  }
});
