/** The weights of a published model, all in memory. */
import type { Pretrained } from '../../src/pretrained/pretrained.ts';
import { readFinite } from '../../src/pretrained/weights.ts';

/** Reads all tensors, one after the other. */
export async function readWeights({
  tensors,
}: Pick<Pretrained, 'tensors'>): Promise<ReadonlyMap<string, Float32Array>> {
  const weights = new Map<string, Float32Array>();
  for (const [name, tensor] of tensors) weights.set(name, await readFinite(name, tensor));
  return weights;
}
