import { shardText, splitText } from 'nostrain/model';
import { expect, test } from 'vitest';
import { assertTokens, storeTokens, tokenType } from '../../../src/model/data/tokens.ts';

test('ids are bytes up to a vocabulary of 256, and 32 bits from there', () => {
  expect([tokenType(95), tokenType(256), tokenType(257)]).toEqual(['u8', 'u8', 'i32']);
  const bytes = Uint8Array.of(1, 2);
  expect(storeTokens(bytes, 256)).toBe(bytes);
  expect(storeTokens(bytes, 49_152)).toEqual(Int32Array.of(1, 2));
  const wide = Int32Array.of(1, 49_151);
  expect(storeTokens(wide, 49_152)).toBe(wide);
  expect(storeTokens(Int32Array.of(1, 2), 95)).toEqual(bytes);
});

test('ids outside the vocabulary are named', () => {
  expect(() => assertTokens(Int32Array.of(0, 299), 300)).not.toThrow();
  expect(() => assertTokens(Int32Array.of(0, 300), 300)).toThrow('token 300 is outside');
  expect(() => assertTokens(Int32Array.of(0, -1), 300)).toThrow('token -1 is outside');
});

test('splits and shards keep 32-bit ids', () => {
  const tokens = Int32Array.from({ length: 1000 }, (_, i) => 70_000 + i);
  const { training, validation } = splitText(tokens, { context: 8 });
  expect(validation[0]).toBe(70_900);
  const form = { form: 'interleaved', context: 8, block: 100 } as const;
  const shards = [1, 2].map((index) => shardText(training, { index, count: 2 }, form));
  expect(shards.map(({ length }) => length)).toEqual([500, 400]);
  expect([...shards[0]!, ...shards[1]!].sort((a, b) => a - b)).toEqual([...training]);
});
