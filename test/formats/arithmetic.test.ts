import { ConfigError } from 'nostrain/base';
import { parseStateJson } from 'nostrain/python';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import {
  difference,
  moved,
  reorderTensors,
  scaleState,
  zerosLike,
} from '../../src/formats/arithmetic.ts';
import { stateText } from '../support/state-text.ts';
import vectors from '../vectors/delta.json' with { type: 'json' };

const read = (state: object) => parseStateJson(stateText(state));

describe('deltas agree with the reference', () => {
  test.each(vectors.cases)('$name', ({ initial, current, delta, ...rest }) => {
    const before = read(initial);
    const made = difference(before, read(current));
    expect(stateDigest(made)).toBe(delta.digest);
    expect(stateDigest(moved(before, made))).toBe(rest['apply_delta(initial,delta)'].digest);
  });

  test.each(vectors.structure_errors)('refuses a state with $name', ({ left, right }) => {
    expect(() => difference(read(left), read(right))).toThrow(ConfigError);
  });
});

test('tensors go by name; what is left of them is refused', () => {
  const a = { name: 'a', shape: [1] };
  const b = { name: 'b', shape: [2] };
  const layout = createLayout([a, b]);
  const params = { layout: createLayout([b, a]), values: Float32Array.of(1, 2, 3) };
  expect(reorderTensors(params, layout)).toEqual({ layout, values: Float32Array.of(3, 1, 2) });
  expect(() => reorderTensors(params, createLayout([b]), 'x.json')).toThrow(
    'x.json has an extra tensor a',
  );
  expect(() => reorderTensors(params, createLayout([a, b, { name: 'c', shape: [] }]))).toThrow(
    'the other state has no tensor c',
  );
  expect(() => reorderTensors(params, createLayout([a, { name: 'b', shape: [2, 1] }]))).toThrow(
    'tensor b of the other state is [2], not [2,1]',
  );
});

test('f32 is widened before anything is subtracted, and inputs stay as they are', () => {
  const layout = createLayout([{ name: 'a', shape: [1] }]);
  const before = { layout, values: Float32Array.of(0.1) };
  const after = { layout, values: Float64Array.of(0.3) };
  expect(difference(before, after).values).toEqual(Float64Array.of(0.3 - Math.fround(0.1)));
  expect(moved(before, after).values).toEqual(Float64Array.of(Math.fround(0.1) + 0.3));
  expect(before.values).toEqual(Float32Array.of(0.1));
});

const vectorState = {
  layout: createLayout([{ name: 'w', shape: [3] }]),
  values: Float32Array.of(1, -2, 0.5),
};

test('scales in f64', () => {
  const scaled = scaleState(vectorState, 0.1);
  expect(scaled.layout).toBe(vectorState.layout);
  expect(scaled.values).toEqual(Float64Array.of(0.1, -0.2, 0.05));
});

test('makes zeros of the same shape', () => {
  expect(zerosLike(vectorState)).toEqual({
    layout: vectorState.layout,
    values: new Float64Array(3),
  });
});
