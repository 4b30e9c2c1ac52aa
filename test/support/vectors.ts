/** Reads golden vectors by file name, and converts the two forms of states in them. */
import { readFileSync } from 'node:fs';
import {
  addPartial,
  createLayout,
  type Params,
  type PartialVector,
  partialOf,
} from 'nostrain/tensor';

export interface JsonState {
  readonly parameters: Readonly<
    Record<string, { readonly shape: readonly number[]; readonly values: readonly number[] }>
  >;
}

export const readVectors = <T>(name: string): T =>
  JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'));

/** Returns a JSON state as f64 parameters, in the given order or by name. */
export function toParams(
  { parameters }: JsonState,
  order = Object.keys(parameters).sort(),
): Params {
  const layout = createLayout(order.map((name) => ({ name, shape: parameters[name]!.shape })));
  return {
    layout,
    values: Float64Array.from(order.flatMap((name) => [...parameters[name]!.values])),
  };
}

/** Every value of a vector, each times `sign`. */
export const dense = (values: ArrayLike<number>, sign = 1): PartialVector =>
  partialOf({
    size: values.length,
    indices: Uint32Array.from({ length: values.length }, (_, i) => i),
    values: Float64Array.from(values, (value) => sign * value),
  });

/** Returns the value of each parameter; 0 for values that the vector lacks. */
export function valuesOf(partial: PartialVector): Float64Array {
  const out = new Float64Array(partial.size);
  addPartial(out, partial, 1);
  return out;
}
