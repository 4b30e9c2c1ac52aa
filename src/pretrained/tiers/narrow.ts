/** A published model cut to a tier while its tensors are read, and what of it all tiers have alike: for who trains a part of it. */
import { sliceAlong } from '../../model/architectures/rings.ts';
import { modelOf } from '../../model/architectures/table.ts';
import type { Pretrained } from '../pretrained.ts';
import { readFinite, type StoredTensor } from '../weights.ts';
import { configAt, tierOf, widthAt } from './tier.ts';

/** The model with its feed-forward layers halved so often more. Throws a `ConfigError` where they cannot be. */
export function narrowed(pretrained: Pretrained, slicing: number): Pretrained {
  if (slicing === 0) return pretrained;
  const { config, spec, name } = pretrained;
  const { tier, base } = tierOf(config, name);
  const at = { tier: tier + slicing, base };
  const narrow = { ...spec, ffn: widthAt(base, at.tier, 'intermediate_size') };
  return {
    ...pretrained,
    spec: narrow,
    config: configAt(config, at),
    tensors: new Map(
      modelOf(narrow).tensors.map((tensor) => {
        const stored = pretrained.tensors.get(tensor.name)!;
        const { name, shape, inner } = tensor;
        return [name, inner === undefined ? stored : cut(stored, shape, inner)] as const;
      }),
    ),
  };
}

/** The first part of a tensor along the width. */
function cut(stored: StoredTensor, shape: readonly number[], inner: number): StoredTensor {
  const to = shape[inner]!;
  return {
    ...stored,
    shape,
    bytes: (stored.bytes * to) / stored.shape[inner]!,
    read: async () => {
      const values = await stored.read();
      return sliceAlong({ shape: stored.shape, inner }, values, { from: 0, to });
    },
  };
}

/** The numbers of each ring of a model of this width, from the first on, as far as its tensors have them: tensor by tensor, each read once. */
export async function* numbersByRing(
  { spec, tensors }: Pretrained,
  widths: readonly number[],
): AsyncIterable<{ readonly ring: number; readonly values: Float32Array }> {
  for (const tensor of modelOf(spec).tensors) {
    const values = await readFinite(tensor.name, tensors.get(tensor.name)!);
    let from = 0;
    for (const [ring, width] of widths.entries()) {
      const to = from + width;
      if (ring === 0 || tensor.inner !== undefined) {
        yield { ring, values: sliceAlong(tensor, values, { from, to }) };
      }
      from = to;
    }
  }
}
