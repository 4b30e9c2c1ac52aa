/** Models that were learned from tiny published ones, by the numbers of the fixtures of decoders and adapters. */

import { jsonFile, type Learned, type OutFile, openPretrained, outFile } from 'nostrain/formats';
import { mergeLora, modelOf } from 'nostrain/model';
import { encodeSafetensors } from 'nostrain/tensor';
import { drawDecoder } from './drawn-decoders.ts';
import { filesFrom } from './out-files.ts';
import { tinyTokenizer } from './tiny-llama.ts';
import { readVectors } from './vectors.ts';

export interface LearnedCase {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly adapter?: { readonly rank: number; readonly alpha: number; readonly targets: string };
}
const casesOf = (file: string) => readVectors<{ cases: readonly LearnedCase[] }>(file).cases;
export const plainCases = casesOf('decoders.json');
export const adaptedCases = casesOf('lora.json');

/** A tokenizer of as many bytes as the tiny models have tokens, one of them special, with a template of chats. */
const whole = tinyTokenizer();
const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false };
const tokenizer = {
  ...whole,
  added_tokens: [{ id: 36, content: '<end>', special: true, ...plain }],
  model: {
    ...whole.model,
    vocab: Object.fromEntries(Object.entries(whole.model.vocab).filter(([, id]) => id < 36)),
  },
};
export const tokenizerConfig = {
  eos_token: '<end>',
  chat_template: '{{ messages[0].content }}<end>',
};

/** The base as a folder of the hub, opened; and what was learned of it. */
export async function learn(one: LearnedCase): Promise<
  Learned & {
    /** All tensors, what was learned included. */
    readonly expected: ReadonlyMap<string, Float32Array>;
    /** The files of the base. */
    readonly base: readonly OutFile[];
    /** The next number of the fixture's formula. */
    next(): number;
  }
> {
  const { spec, adapter, tensors, next } = drawDecoder(one, 8);
  const valuesOf = (name: string) => tensors.get(name)!;
  const stored = modelOf(spec).tensors.map(({ name, shape }) => {
    return { name, shape, values: valuesOf(name) };
  });
  const files = [
    jsonFile('config.json', one.config),
    jsonFile('tokenizer.json', tokenizer),
    jsonFile('tokenizer_config.json', tokenizerConfig),
    outFile('model.safetensors', encodeSafetensors({ tensors: stored, metadata: {} })),
  ];
  const pretrained = await openPretrained(await filesFrom(files), { context: 8 });
  const merges = adapter ? mergeLora(spec, adapter) : new Map();
  const expected = new Map(
    stored.map(({ name, values }) => [name, merges.get(name)?.(values, valuesOf) ?? values]),
  );
  return { pretrained, adapter, valuesOf, expected, base: files, next };
}
