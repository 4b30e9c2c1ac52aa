import { expect, test } from 'vitest';
import { sampleTokens } from '../../src/model/sample.ts';

/** A model of three tokens that always wants the one after the last it saw. */
const cycle = async (tokens: Int32Array): Promise<Float32Array> =>
  Float32Array.from({ length: tokens.length * 3 }, (_, i) => {
    const wanted = (tokens[Math.floor(i / 3)]! + 1) % 3;
    return i % 3 === wanted ? 2 : 0;
  });

const options = { length: 12, seed: 1, context: 4, vocabulary: 3, prompt: Uint8Array.of(1) };

test('temperature 0 takes the likeliest token, also past the context', async () => {
  const tokens = await sampleTokens(cycle, { ...options, temperature: 0 });
  expect([...tokens]).toEqual([1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
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
  expect([...tokens.slice(0, 3)]).toEqual([0, 1, 2]);
});
