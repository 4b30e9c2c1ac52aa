import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/base/errors.ts';
import { add, assertCompatible, difference, subtract } from '../../src/tensor/arithmetic.ts';
import { stateDigest } from '../../src/tensor/digest.ts';
import { createLayout } from '../../src/tensor/params.ts';
import { parseStateJson } from '../../src/tensor/state-json.ts';
import { stateText } from '../support/state-text.ts';
import vectors from '../vectors/delta.json' with { type: 'json' };

const read = (state: object) => parseStateJson(stateText(state));

describe('deltas agree with the reference', () => {
  test.each(vectors.cases)('$name', ({ initial, current, delta, ...rest }) => {
    const before = read(initial);
    const made = difference(before, read(current));
    expect(stateDigest(made)).toBe(delta.digest);
    const again = add(before.values, made.values);
    expect(stateDigest({ layout: before.layout, values: again })).toBe(
      rest['apply_delta(initial,delta)'].digest,
    );
  });

  test.each(vectors.structure_errors)('refuses a state with $name', ({ left, right }) => {
    expect(() => difference(read(left), read(right))).toThrow(ConfigError);
  });
});

test('tensors in another order are not the same state', () => {
  const a = { name: 'a', shape: [1] };
  const b = { name: 'b', shape: [1] };
  expect(() => assertCompatible(createLayout([a, b]), createLayout([b, a]))).toThrow('order');
});

test('the left vector decides how results are stored, and inputs stay as they are', () => {
  const left = Float32Array.of(1, 2);
  expect(subtract(left, Float64Array.of(0.1, 0))).toEqual(Float32Array.of(1 - 0.1, 2));
  expect(add(Float64Array.of(1), Float32Array.of(2))).toEqual(Float64Array.of(3));
  expect(left).toEqual(Float32Array.of(1, 2));
  expect(() => add(left, Float32Array.of(1))).toThrow(RangeError);
});
