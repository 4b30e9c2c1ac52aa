/**
 * Rotary positions (RoFormer, arXiv 2104.09864) in the form that Hugging Face's Llama gave them: elements i and i + d/2 of a head
 * are turned together. Frequencies and angles are rounded to f32 where `transformers` rounds them.
 */
import type { LlamaSpec, RopeScaling } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/value.ts';

export interface RopeTables {
  readonly cos: Value;
  readonly sin: Value;
}

/** Cosines and sines of the angles of positions 0 .. length - 1, both (length, headSize / 2), of the type of `like`. */
export function ropeTables(
  { rope, headSize }: Pick<LlamaSpec, 'rope' | 'headSize'>,
  length: number,
  like: Value,
): RopeTables {
  const { base, scaling } = rope;
  const half = headSize / 2;
  const frequencies = Array.from({ length: half }, (_, i) =>
    Math.fround(stretch(Math.fround(1 / Math.fround(base ** ((2 * i) / headSize))), scaling)),
  );
  const table = (f: (angle: number) => number) => {
    const elements = new Float32Array(length * half);
    for (let t = 0; t < length; t++) {
      for (let i = 0; i < half; i++) elements[t * half + i] = f(Math.fround(t * frequencies[i]!));
    }
    return like.graph.constant({ dtype: like.dtype, shape: [length, half] }, elements);
  };
  return { cos: table(Math.cos), sin: table(Math.sin) };
}

/** Lower frequencies for longer texts; Llama 3 leaves fast ones as they are and blends in between. */
function stretch(frequency: number, scaling: RopeScaling | undefined): number {
  if (!scaling) return frequency;
  const { factor } = scaling;
  if (scaling.type === 'linear') return frequency / factor;
  const { lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = scaling;
  const turns = (originalContext * frequency) / (2 * Math.PI);
  if (turns > high) return frequency;
  if (turns < low) return frequency / factor;
  const blend = (turns - low) / (high - low);
  return ((1 - blend) * frequency) / factor + blend * frequency;
}
