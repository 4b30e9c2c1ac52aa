/** Models by name, for people who do not want to choose sizes. */
import type { GptSpec } from '../run/model-spec.ts';

const gpt = (
  vocabulary: number,
  width: number,
  layers: number,
  heads: number,
  context: number,
): GptSpec => ({
  architecture: 'gpt',
  vocabulary,
  width,
  layers,
  heads,
  context,
  ffn: 4 * width,
});

export const presets = {
  /** 834,048 parameters over 95 characters: a step takes a tenth of a second on two laptop cores. */
  'char-gpt': gpt(95, 128, 4, 4, 128),
  /** 10.8 million parameters: for machines with more than a few cores. */
  'char-gpt-10m': gpt(95, 384, 6, 6, 256),
} satisfies Record<string, GptSpec>;

export type PresetName = keyof typeof presets;
