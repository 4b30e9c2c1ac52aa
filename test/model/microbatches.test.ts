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
