/**
 * Tiers of width (MatFormer, arXiv 2310.07707) as rings: every tensor that is as long as a feed-forward layer is wide is cut along that
 * width into the part of the smallest tier and what each larger one adds. Ring 0 holds everything else too, and rings lie one after the other
 * in the flat vector, each filled up to whole chunks, so that a tier is a prefix of the whole model's vector, chunk by chunk. A tier's program
 * is that of a narrower model, whose matrices are joined from rings.
 */
import type { Tiers } from '../../run/model-spec.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { concat } from '../graph/verbs.ts';
import type { Model, TensorSpec, Weights } from './architecture.ts';

/** How the name of a tensor goes on in an outer ring; in ring 0 it is the name itself. */
const ringName = (name: string, ring: number): string =>
  ring === 0 ? name : `${name}.ring${ring}`;

/** Zeros at the end of a ring that no program reads. */
const paddingName = (ring: number): string => `padding.ring${ring}`;

/** The widths of the rings that a tier has: for two tiers a quarter, a quarter, a half. */
function ringWidths(ffn: number, { count, own }: Tiers): readonly number[] {
  const widths = Array.from({ length: count - own + 1 }, (_, ring) => ffn / 2 ** (count - ring));
  return widths.map((width, ring) => (ring === 0 ? width : width / 2));
}

/** A model of a tier's width, with its tensors in rings; `ffn` is the width of the whole model. */
export function inRings({ decoding: _, ...model }: Model, tiers: Tiers, ffn: number): Model {
  const widths = ringWidths(ffn, tiers);
  const axes = new Map(model.tensors.map(({ name, inner }) => [name, inner]));
  const rings = widths.map((width, ring) =>
    model.tensors.flatMap((tensor) => partIn(tensor, ring, width)),
  );
  const joined =
    (weights: Weights): Weights =>
    (name) => {
      const axis = axes.get(name);
      if (axis === undefined || widths.length === 1) return weights(name);
      const outer = widths.slice(1).map((_, i) => weights(ringName(name, i + 1)));
      return concat([weights(name), ...outer], axis);
    };
  return {
    ...model,
    tensors: rings.flatMap((tensors, ring) =>
      ring === tiers.count ? tensors : [...tensors, ...padding(tensors, ring)],
    ),
    predict: (weights, inputs) => model.predict(joined(weights), inputs),
    losses: (weights, batch) => model.losses(joined(weights), batch),
  };
}

function partIn(tensor: TensorSpec, ring: number, width: number): readonly TensorSpec[] {
  const { name, shape, inner } = tensor;
  if (inner === undefined) return ring === 0 ? [tensor] : [];
  return [{ ...tensor, name: ringName(name, ring), shape: shape.with(inner, width), ring }];
}

function padding(tensors: readonly TensorSpec[], ring: number): readonly TensorSpec[] {
  const sizes = tensors.map(({ shape }) => shape.reduce((product, dim) => product * dim, 1));
  const missing = -sizes.reduce((sum, size) => sum + size, 0) % CHUNK_LENGTH;
  if (missing === 0) return [];
  return [{ name: paddingName(ring), shape: [missing + CHUNK_LENGTH], start: 'zeros', ring }];
}
