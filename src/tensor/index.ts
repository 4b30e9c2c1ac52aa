/**
 * Flat parameter vectors and their layout, chunks and partial vectors, state digests, safetensors.
 *
 * @module nostrain/tensor
 */
export {
  createLayout,
  type Layout,
  type Params,
  stateDigest,
  type TensorSlot,
  type Vector,
} from './params.ts';
export {
  addPartial,
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
  partialOf,
  prefixOfPartial,
} from './partial-vector.ts';
export { decodeSafetensors, encodeSafetensors, type NamedTensor } from './safetensors.ts';
