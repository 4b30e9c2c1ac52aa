import { tokenizers } from 'nostrain/model';
import { expect, test } from 'vitest';
import {
  type Continuation,
  continueText,
  createTextStream,
  createWindowReader,
} from '../../src/model/sample.ts';

/** A model of three tokens that always wants the one after the last it saw. */
const cycle = async (tokens: Int32Array): Promise<Float32Array> =>
  Float32Array.from({ length: tokens.length * 3 }, (_, i) => {
    const wanted = (tokens[Math.floor(i / 3)]! + 1) % 3;
    return i % 3 === wanted ? 2 : 0;
  });

const options = { length: 12, seed: 1, prompt: Uint8Array.of(1) };

async function sampleTokens(logits: typeof cycle, request: Continuation): Promise<number[]> {
  const reader = createWindowReader(logits, { context: 4, vocabulary: 3 });
  const tokens = request.prompt.length === 0 ? [0] : Array.from(request.prompt);
  for await (const token of continueText(reader, request)) tokens.push(token);
  return tokens;
}

test('temperature 0 takes the likeliest token, also past the context', async () => {
  const tokens = await sampleTokens(cycle, { ...options, temperature: 0 });
  expect(tokens).toEqual([1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
});

test('draws follow the seed and the temperature', async () => {
  const warm = { ...options, length: 600, temperature: 1 };
  const tokens = await sampleTokens(cycle, warm);
  expect(await sampleTokens(cycle, warm)).toEqual(tokens);
  expect(await sampleTokens(cycle, { ...warm, seed: 2 })).not.toEqual(tokens);
  const wanted = tokens.filter((token, i) => i > 0 && token === (tokens[i - 1]! + 1) % 3).length;
  expect(Math.abs(wanted / 600 - Math.exp(2) / (Math.exp(2) + 2))).toBeLessThan(0.05);
});

test('an empty prompt starts from token 0', async () => {
  const tokens = await sampleTokens(cycle, {
    ...options,
    prompt: new Uint8Array(0),
    temperature: 0,
  });
  expect(tokens.slice(0, 3)).toEqual([0, 1, 2]);
});

/** Logits whose shares are 0.5, 0.25, 0.15 and 0.1, in another order. */
const shares = [0.15, 0.5, 0.1, 0.25];
const fixed = {
  capacity: 100,
  read: async () => Float32Array.from(shares, Math.log),
  clear: () => undefined,
};

test.each([
  ['all', {}, [0, 1, 2, 3]],
  ['half of the shares', { topP: 0.5 }, [1]],
  ['a little more than half', { topP: 0.51 }, [1, 3]],
  ['nearly all', { topP: 0.95 }, [0, 1, 2, 3]],
  ['the three likeliest', { topK: 3 }, [0, 1, 3]],
  ['two thirds of the two likeliest', { topK: 2, topP: 0.6 }, [1]],
])('%s', async (_, limits, expected) => {
  const found = new Set<number>();
  const request = { prompt: [0], length: 400, temperature: 1, seed: 3, ...limits };
  for await (const token of continueText({ ...fixed, capacity: 1000 }, request)) found.add(token);
  expect([...found].sort()).toEqual(expected);
});

test('a text ends after the token that ends it', async () => {
  const ends = new Set([0]);
  const tokens = await sampleTokens(cycle, { ...options, temperature: 0, ends });
  expect(tokens).toEqual([1, 2, 0]);
});

test('a reader that is full goes on from the last half of the text', async () => {
  let held: number[] = [];
  const pieces: number[][] = [];
  const reader = {
    capacity: 6,
    read: async (tokens: ArrayLike<number>) => {
      pieces.push(Array.from(tokens));
      held.push(...Array.from(tokens));
      expect(held.length).toBeLessThanOrEqual(6);
      return (await cycle(Int32Array.of(held.at(-1)!))).slice(-3);
    },
    clear: () => {
      held = [];
    },
  };
  const request = { prompt: [2, 2, 2, 0, 1, 2, 0, 1], length: 6, temperature: 0, seed: 1 };
  const tokens: number[] = [];
  for await (const token of continueText(reader, request)) tokens.push(token);
  expect(tokens).toEqual([2, 0, 1, 2, 0, 1]);
  expect(pieces).toEqual([[2, 0, 1, 2, 0, 1], [0, 1, 2], [0], [1], [2], [1, 2, 0]]);
});

test('an abort ends the text', async () => {
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(sampleTokens(cycle, { ...options, temperature: 1, signal })).rejects.toThrow(
    'enough',
  );
});

const piecesOf = (tokens: ArrayLike<number>): readonly string[] => {
  const stream = createTextStream((some) => tokenizers.bytes.decode(some));
  return [...Array.from(tokens, (token) => stream.push(token)), stream.end()];
};
const bytes = (text: string) => new TextEncoder().encode(text);

test('a character comes as soon as its last byte does', () => {
  expect(piecesOf(bytes('aé😀b'))).toEqual(['a', '', 'é', '', '', '', '😀', 'b', '']);
});

test('bytes that are no character are not held back for ever, and none is lost at the end', () => {
  const text = piecesOf([0xff, 0xfe, ...bytes('one'), 0xe2, 0x82]).join('');
  expect(text).toBe('\ufffd\ufffdone\ufffd');
  expect(piecesOf(Array.from({ length: 20 }, () => 0xff)).join('')).toBe('\ufffd'.repeat(20));
});

test('a tokenizer that writes its first token in another way keeps the spaces', () => {
  const words = ['one', 'two', 'three'];
  const stream = createTextStream((tokens) =>
    Array.from(tokens, (token) => ` ${words[token]}`)
      .join('')
      .trimStart(),
  );
  expect([0, 1, 2].map((token) => stream.push(token))).toEqual(['one', ' two', ' three']);
});
