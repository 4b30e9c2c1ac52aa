/** Whole states as vectors: the rest of the Python reference's algebra beside `arithmetic.ts`. Results are f64. */
import type { Params } from './params.ts';

/** Every value times a factor. */
export const scaleState = ({ layout, values }: Params, factor: number): Params => ({
  layout,
  values: Float64Array.from(values, (value) => value * factor),
});

/** The same tensors, all zeros. */
export const zerosLike = ({ layout }: Params): Params => ({
  layout,
  values: new Float64Array(layout.size),
});
