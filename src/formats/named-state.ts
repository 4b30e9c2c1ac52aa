/** A state out of the tensors of a file by anyone: what the digest cannot take is refused here, once for all formats. */
import { utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { compareCodePoints, createLayout, type Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';

const LARGEST = 0xffff_ffff;
const MAX_NAME_BYTES = 0xffff;

/**
 * A state of any tensors, such as a PyTorch state dict, sorted by name; f32 where all of them are, else f64. Or why it is none: a
 * name that is empty or repeated, a value that is not finite. Never throws.
 *
 * @example
 * ```ts
 * import { modelStateFromTorchStateDictPayload } from 'nostrain/python';
 *
 * const weight = { name: 'fc.weight', shape: [1, 2], values: Float32Array.of(1, 2) };
 * const bias = { name: 'fc.bias', shape: [1], values: Float32Array.of(3) };
 * const state = modelStateFromTorchStateDictPayload([weight, bias]);
 * state.ok && state.value.values; // => Float32Array.of(3, 1, 2)
 * ```
 */
export function stateOfTensors(tensors: readonly NamedTensor[]): Result<Params> {
  if (tensors.length === 0) return refuse('state/empty', 'tensors', 'there is none');
  const sorted = [...tensors].sort((a, b) => compareCodePoints(a.name, b.name));
  const seen = new Set<string>();
  for (const { name, shape, values } of sorted) {
    const at = name.slice(0, 80);
    if (name === '' || seen.has(name) || utf8(name).length > MAX_NAME_BYTES) {
      return refuse('state/name', at, 'a name is empty, repeated or longer than 65535 bytes');
    }
    seen.add(name);
    if (shape.length > MAX_NAME_BYTES || shape.some((dim) => dim > LARGEST)) {
      return refuse('state/shape', at, 'has a dimension beyond 2^32 - 1, or too many');
    }
    if (!values.every(Number.isFinite)) return refuse('state/value', at, 'has a value not finite');
  }
  const layout = createLayout(sorted);
  const isSingle = sorted.every(({ values }) => values instanceof Float32Array);
  const values = isSingle ? new Float32Array(layout.size) : new Float64Array(layout.size);
  sorted.forEach((tensor, i) => {
    values.set(tensor.values, layout.slots[i]!.offset);
  });
  return ok({ layout, values });
}

/**
 * A state's tensors in its order, by the names they have; the values are views.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, modelStateToTorchTensors } from 'nostrain/python';
 *
 * const tensors = modelStateToTorchTensors(initializeLinearRegressionState(2));
 * tensors.map(({ name, shape }) => [name, shape]); // => [['linear.bias', [1]], ['linear.weight', [1, 2]]]
 * ```
 */
export const tensorsOfState = ({ layout, values }: Params): readonly NamedTensor[] =>
  layout.slots.map(({ name, shape, offset, size }) => ({
    name,
    shape,
    values: values.subarray(offset, offset + size),
  }));
