/** What tiny decoders and adapters write is what transformers and PEFT write, from a stored fixture (test/vectors/make_greedy.py). */

import { initialParameters, loraModel, modelOf } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { nodeRuntime } from 'nostrain/node/parts';
import { Tensor } from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';
import { continueText } from '../../../src/model/sample.ts';
import { createTextReader } from '../../../src/trainer/text-reader.ts';
import { type DrawnDecoder, drawDecoder } from '../../support/drawn-decoders.ts';
import { adamwSpec } from '../../support/ort-models.ts';
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
function open({ spec, adapter, tensors }: DrawnDecoder, capacity: number, first?: number) {
  const model = modelOf(adapter ? loraModel(spec, adapter) : spec);
  const all = [...model.tensors, ...(model.frozen ?? [])];
  const feeds = all.map(({ name, shape }) => {
    return [name, new Tensor('float32', tensors.get(name)!, shape)] as const;
  });
  return createTextReader({
    ort: nodeRuntime,
    decoding: model.decoding!,
    tensors: Object.fromEntries(feeds),
    ...{ capacity, threads: 1, ...(first !== undefined && { first }) },
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
  it('writes the same', async () => {
    const longest = prompt.length + tokens.length;
    // less room at first, so that it has to grow
    const reader = open(drawDecoder(model, longest), longest, 7);
    expect(await write(reader, prompt, tokens.length)).toEqual(tokens);
    // another text through the same reader; what is left of the first is not seen
    const half = [...prompt, ...tokens.slice(0, tokens.length >> 1)];
    const rest = tokens.slice(tokens.length >> 1);
    expect(await write(reader, half, rest.length)).toEqual(rest);
    await reader.close();
  });
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
