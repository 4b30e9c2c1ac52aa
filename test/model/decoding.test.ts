/** Reading a text in pieces, with stored keys and values, gives the logits of reading all of it at once. */

import { compileTraining, initialParameters, llama, modelLayout } from 'nostrain/model';
import type { DecoderSpec, LlamaSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import type { Decoder } from '../../src/model/architectures/decoder.ts';
import { gpt2 } from '../../src/model/architectures/gpt2.ts';
import { cacheShape, compileDecoding } from '../../src/model/decoding.ts';
import { adamwSpec, chainCorpus, tinyGpt2, tinyLlama } from '../support/ort-models.ts';
import { load, type Run, type TestTensor } from '../support/ort-run.ts';

const llamaSpec: LlamaSpec = { ...tinyLlama, rope: { base: 100 } };
const specs: readonly (readonly [string, DecoderSpec])[] = [
  ['llama', llamaSpec],
  ['llama with a window', { ...llamaSpec, window: 4, queryKeyNorm: false }],
  ['gpt2', tinyGpt2],
];

const CAPACITY = 15;
const PIECE = 5;

/** Reads tokens a call at a time and stores what the calls leave behind, as a sampler does. */
class Reader {
  readonly #decoder: Decoder;
  readonly #tensors: Readonly<Record<string, TestTensor>>;
  readonly #caches: Readonly<Record<string, Float32Array>>;
  #start = 0;

  constructor(decoder: Decoder, tensors: Readonly<Record<string, TestTensor>>) {
    this.#decoder = decoder;
    this.#tensors = tensors;
    const size = cacheShape(decoder, CAPACITY).reduce((product, dim) => product * dim, 1);
    // what is left of another text must not be seen
    this.#caches = Object.fromEntries(
      Array.from({ length: 2 * decoder.layers }, (_, i) => [
        `${i % 2 === 0 ? 'keys' : 'values'}.${i >> 1}`,
        new Float32Array(size).fill(7),
      ]),
    );
  }

  /** Logits after the last of the tokens, of which a call may take more. */
  async read(run: Run, width: number, tokens: ArrayLike<number>): Promise<Float64Array> {
    const { heads, size } = this.#decoder.cached;
    const filled = Array.from({ length: width }, (_, i) => tokens[i] ?? 29);
    const shape = cacheShape(this.#decoder, CAPACITY);
    const results = await run({
      ...this.#tensors,
      tokens: { dtype: 'i32', shape: [1, width], elements: filled },
      start: { dtype: 'i32', shape: [1], elements: [this.#start] },
      last: { dtype: 'i32', shape: [1], elements: [tokens.length - 1] },
      ...Object.fromEntries(
        Object.entries(this.#caches).map(([name, elements]) => [
          `past.${name}`,
          { dtype: 'f32' as const, shape, elements },
        ]),
      ),
    });
    for (const [name, cache] of Object.entries(this.#caches)) {
      for (let head = 0; head < heads; head++) {
        const own = results[name]!.subarray(head * width * size).subarray(0, tokens.length * size);
        cache.set(own, (head * CAPACITY + this.#start) * size);
      }
    }
    this.#start += tokens.length;
    return results.logits!;
  }
}

describe.each(specs)('%s', (_, spec) => {
  const decoder = spec.architecture === 'llama' ? llama(spec) : gpt2(spec);
  const layout = modelLayout(spec);
  const params = initialParameters(spec, 3);
  const tokens = chainCorpus(spec.context, 30);
  const tensors = Object.fromEntries(
    layout.slots.map(({ name, shape, offset, size }) => [
      name,
      { dtype: 'f32' as const, shape, elements: params.subarray(offset, offset + size) },
    ]),
  );

  test('reads in pieces as at once', async () => {
    const whole = await load(compileTraining(spec, adamwSpec, 1).forward());
    const { predictions } = await whole({
      params: { dtype: 'f32', shape: [layout.size], elements: params },
      inputs: { dtype: 'i32', shape: [1, spec.context], elements: tokens },
    });
    const [piece, single] = await Promise.all(
      [PIECE, 1].map((count) =>
        load(compileDecoding(decoder, { capacity: CAPACITY, tokens: count })),
      ),
    );
    const reader = new Reader(decoder, tensors);
    const at = async (from: number, to: number) => {
      const run = to - from === 1 ? single! : piece!;
      const width = to - from === 1 ? 1 : PIECE;
      const logits = await reader.read(run, width, tokens.subarray(from, to));
      const expected = predictions!.subarray((to - 1) * 30, to * 30);
      logits.forEach((value, i) => {
        expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-5);
      });
    };
    await at(0, 5);
    await at(5, 8); // shorter than a piece
    for (let t = 8; t < spec.context; t++) await at(t, t + 1);
  });
});
