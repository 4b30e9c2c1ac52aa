/** Whole states as vectors: the rest of the Python reference's algebra beside `arithmetic.ts`. Results are f64. */

import type { Params } from '../../tensor/params.ts';
import { difference } from './arithmetic.ts';

/**
 * left - right, tensor by tensor. Throws a ConfigError (`state/other-model`) naming the first tensor that the two do not share.
 *
 * @example
 * ```ts
 * import { parseStateJson, subtractStates } from 'nostrain/python';
 *
 * const left = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [3, 1]}}}');
 * const right = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [1, 1]}}}');
 * subtractStates(left, right).values; // => Float64Array.of(2, 0)
 * ```
 */
export const subtractStates = (left: Params, right: Params): Params => difference(right, left);

/**
 * Every value times a factor.
 *
 * @example
 * ```ts
 * import { parseStateJson, scaleState } from 'nostrain/python';
 *
 * const state = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [3, 1]}}}');
 * scaleState(state, 0.5).values; // => Float64Array.of(1.5, 0.5)
 * ```
 */
export const scaleState = ({ layout, values }: Params, factor: number): Params => ({
  layout,
  values: Float64Array.from(values, (value) => value * factor),
});

/**
 * The same tensors, all zeros.
 *
 * @example
 * ```ts
 * import { createLayout, zerosLike } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [1, 2] }]);
 * zerosLike({ layout, values: Float32Array.of(3, 1) }).values; // => new Float64Array(2)
 * ```
 */
export const zerosLike = ({ layout }: Params): Params => ({
  layout,
  values: new Float64Array(layout.size),
});
