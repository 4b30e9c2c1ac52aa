import type { Gpt2Spec } from 'nostrain/run';
import { expect, test } from 'vitest';
import { countParts } from '../../src/model/batches.ts';
import { charGpt } from '../support/ort-models.ts';

test('parts divide the batch and have at least 1024 tokens', () => {
  expect(countParts(charGpt, 32)).toBe(4);
  expect(countParts(charGpt, 64)).toBe(8);
  expect(countParts(charGpt, 12)).toBe(1);
  expect(countParts(charGpt, 31)).toBe(1);
  expect(countParts(charGpt, 4)).toBe(1);
  expect(countParts({ architecture: 'linear', features: 3 }, 32)).toBe(1);
});

test('large published models stay whole: every part would hold a gradient', () => {
  const gpt2 = (width: number): Gpt2Spec => ({
    architecture: 'gpt2',
    vocabulary: 50_257,
    width,
    layers: 2,
    heads: 2,
    ffn: 4 * width,
    context: 256,
    positions: 1024,
    normEpsilon: 1e-5,
    activation: 'gelu-tanh',
    tied: true,
    deviation: 0.02,
  });
  expect(countParts(gpt2(64), 16)).toBe(4);
  expect(countParts(gpt2(512), 16)).toBe(1);
});
