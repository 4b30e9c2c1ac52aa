import { sha256Hex } from 'nostrain/base';
import { describe, expect, test } from 'vitest';
import { countParameters, initialParameters, modelLayout } from '../../src/model/parameters.ts';
import { compareCodePoints } from '../../src/tensor/params.ts';
import { charGpt } from '../support/ort-models.ts';

describe('layout', () => {
  test('char-gpt has 834,048 parameters, as the reference has', () => {
    expect(countParameters(charGpt)).toBe(834_048);
  });

  test('tensors are sorted by code point, end to end', () => {
    const { slots } = modelLayout(charGpt);
    const names = slots.map(({ name }) => name);
    expect(names).toEqual([...names].sort(compareCodePoints));
    expect(names).toContain('blocks.0.attention.qkv.weight');
    slots.reduce((end, { offset, size }) => {
      expect(offset).toBe(end);
      return end + size;
    }, 0);
  });

  test('linear and one-layer mlp use the names and shapes of the Python reference', () => {
    const shapes = (layout: ReturnType<typeof modelLayout>) =>
      layout.slots.map(({ name, shape }) => [name, ...shape]);
    expect(shapes(modelLayout({ architecture: 'linear', features: 3 }))).toEqual([
      ['linear.bias', 1],
      ['linear.weight', 1, 3],
    ]);
    expect(shapes(modelLayout({ architecture: 'mlp', features: 3, hidden: [4] }))).toEqual([
      ['mlp.hidden.bias', 4],
      ['mlp.hidden.weight', 4, 3],
      ['mlp.output.bias', 1],
      ['mlp.output.weight', 1, 4],
    ]);
  });

  test('impossible sizes are refused by name', () => {
    expect(() => modelLayout({ ...charGpt, heads: 3 })).toThrow(/heads/);
    expect(() => modelLayout({ ...charGpt, layers: 0 })).toThrow(/model\.layers/);
    expect(() => modelLayout({ architecture: 'mlp', features: 2, hidden: [] })).toThrow(/hidden/);
    expect(() => modelLayout({ architecture: 'mlp', features: 2, hidden: [1.5] })).toThrow(/1\.5/);
  });
});

describe('initial values', () => {
  const values = initialParameters(charGpt, 1);
  const slice = (name: string) => {
    const slot = modelLayout(charGpt).slots.find((candidate) => candidate.name === name)!;
    return values.subarray(slot.offset, slot.offset + slot.size);
  };

  test('are the same bits everywhere', () => {
    // recorded once; a different hash would split every run into those who have it and those who have not
    expect(sha256Hex(new Uint8Array(values.buffer))).toBe(
      'bc1e5e27de846e27f663409189afc2847e425c073b98eccadc03016af7c87942',
    );
  });

  test('differ by seed and by tensor', () => {
    expect(initialParameters(charGpt, 2)).not.toEqual(values);
    expect(slice('blocks.0.feedforward.hidden.weight').slice(0, 8)).not.toEqual(
      slice('blocks.1.feedforward.hidden.weight').slice(0, 8),
    );
  });

  test('weights are nearly normal with deviation 0.02, norms one, biases zero', () => {
    const weights = slice('blocks.0.feedforward.hidden.weight');
    const moment = (power: number) =>
      weights.reduce((sum, value) => sum + (value / 0.02) ** power, 0) / weights.length;
    expect(Math.abs(moment(1))).toBeLessThan(0.02);
    expect(moment(2)).toBeCloseTo(1, 1);
    expect(Math.abs(moment(3))).toBeLessThan(0.05);
    expect(Math.abs(moment(4) - 3)).toBeLessThan(0.25); // 3 - 1.2 / 8 for a sum of eight
    expect(slice('norm.weight').every((value) => value === 1)).toBe(true);
    expect(slice('blocks.3.attention.qkv.bias').every((value) => value === 0)).toBe(true);
  });
});
