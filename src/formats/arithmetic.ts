/** Adds, subtracts and scales states as the Python reference does: by tensor name, in f64. */
import { ConfigError } from '../base/errors.ts';
import { type Layout, type Params, sameLayout } from '../tensor/params.ts';

/**
 * Returns after - before in f64, with tensors in the order of `before`. Throws a ConfigError (`state/other-model`) that
 * calls `after` by `what` and names the first tensor that the two do not share.
 *
 * @example
 * ```ts
 * import { computeDelta, parseStateJson } from 'nostrain/python';
 *
 * const before = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [1, 1]}}}');
 * const after = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [3, 1]}}}');
 * computeDelta(before, after).values; // => Float64Array.of(2, 0)
 * ```
 */
export function difference(before: Params, after: Params, what?: string): Params {
  const { values } = reorderTensors(after, before.layout, what);
  const out = new Float64Array(before.values);
  for (let i = 0; i < out.length; i++) out[i] = values[i]! - out[i]!;
  return { layout: before.layout, values: out };
}

/**
 * Returns base + delta in f64, with tensors in the order of `base`. Throws a ConfigError (`state/other-model`) that
 * calls `delta` by `what` and names the first tensor that the two do not share.
 *
 * @example
 * ```ts
 * import { applyDelta, parseStateJson } from 'nostrain/python';
 *
 * const base = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [1, 1]}}}');
 * const delta = parseStateJson('{"parameters": {"w": {"shape": [2], "values": [2, 0]}}}');
 * applyDelta(base, delta).values; // => Float64Array.of(3, 1)
 * ```
 */
export function moved(base: Params, delta: Params, what?: string): Params {
  const { values } = reorderTensors(delta, base.layout, what);
  const out = new Float64Array(base.values);
  for (let i = 0; i < out.length; i++) out[i] = out[i]! + values[i]!;
  return { layout: base.layout, values: out };
}

/**
 * Returns left - right. Throws a ConfigError (`state/other-model`) naming the first tensor that the two do not share.
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
 * Returns the state with every value multiplied by a factor.
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
 * Returns a state of zeros with the same tensors.
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

/** Returns the state with its tensors in the order of a layout. Throws, naming the first tensor that differs. */
export function reorderTensors(params: Params, layout: Layout, what = 'the other state'): Params {
  if (sameLayout(params.layout, layout)) return params;
  const slots = new Map(params.layout.slots.map((slot) => [slot.name, slot]));
  const values = params.values.slice();
  for (const { name, shape, offset, size } of layout.slots) {
    const slot = slots.get(name);
    if (slot === undefined) throw otherModel(`${what} has no tensor ${name}`);
    if (slot.shape.join() !== shape.join()) {
      throw otherModel(`tensor ${name} of ${what} is [${slot.shape}], not [${shape}]`);
    }
    values.set(params.values.subarray(slot.offset, slot.offset + size), offset);
    slots.delete(name);
  }
  const [extra] = slots.keys();
  if (extra !== undefined) throw otherModel(`${what} has an extra tensor ${extra}`);
  return { layout, values };
}

const otherModel = (message: string): ConfigError =>
  new ConfigError('state/other-model', message, { hint: 'name files of the same model' });
