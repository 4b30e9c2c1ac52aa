import { expect, it } from 'vitest';
import { scaleState, zerosLike } from '../../../src/python/formats/state-algebra.ts';
import { createLayout } from '../../../src/tensor/params.ts';

const state = {
  layout: createLayout([{ name: 'w', shape: [3] }]),
  values: Float32Array.of(1, -2, 0.5),
};

it('scales in f64', () => {
  const scaled = scaleState(state, 0.1);
  expect(scaled.layout).toBe(state.layout);
  expect(scaled.values).toEqual(Float64Array.of(0.1, -0.2, 0.05));
});

it('makes zeros of the same shape', () => {
  expect(zerosLike(state)).toEqual({ layout: state.layout, values: new Float64Array(3) });
});
