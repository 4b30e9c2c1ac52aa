/** States of any architecture as PyTorch files, tensors under the names PyTorch gives them. */
import { type Result, refuse } from '../../base/result.ts';
import type { Params } from '../../tensor/params.ts';
import { stateOfTensors, tensorsOfState } from './named-state.ts';
import { decodeTorch } from './torch-file.ts';
import { encodeTorch, type Pickled } from './torch-pickle.ts';
import { findStateDicts, readStateDict } from './torch-search.ts';

/** A state as the dict of double tensors that `load_state_dict` of a module with these names takes. */
export const stateDictOf = (params: Params): Pickled => ({
  kind: 'dict',
  items: tensorsOfState(params).map(
    ({ name, ...tensor }) => [name, { kind: 'tensor', tensor }] as const,
  ),
});

/**
 * A file for `module.load_state_dict(torch.load(file))`, of any architecture: tensors in double precision under the names they
 * have.
 *
 * @example
 * ```ts
 * import { createLayout, decodeTorchState, encodeTorchState } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'fc.weight', shape: [1, 2] }]);
 * const read = decodeTorchState(encodeTorchState({ layout, values: Float64Array.of(1, 2) }));
 * read.ok && read.value.values; // => Float64Array.of(1, 2)
 * ```
 */
export const encodeTorchState = (params: Params): Uint8Array => encodeTorch(stateDictOf(params));

/**
 * The first state dict in a file that `torch.save` wrote, of any architecture, buffers included, sorted by name; f32 where all
 * tensors are. Pickles are read through an allow-list, anything else in them is refused by name. Never throws.
 *
 * @example
 * ```ts
 * import { decodeTorchState } from 'nostrain/python';
 *
 * decodeTorchState(new Uint8Array(8)).ok; // => false
 * ```
 */
export function decodeTorchState(file: Uint8Array): Result<Params> {
  const payload = decodeTorch(file);
  if (!payload.ok) return payload;
  for (const dict of findStateDicts(payload.value)) {
    const tensors = readStateDict(dict);
    if (tensors.ok) return stateOfTensors(tensors.value);
  }
  return refuse('torch/format', 'file', 'holds no state dict');
}
