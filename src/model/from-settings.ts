/** Which model training settings describe, before any data is read: its architecture and the layout of its parameters. */
import type { ModelSpec } from '../run/model-spec.ts';
import type { Settings } from '../run/settings.ts';
import type { Layout } from '../tensor/params.ts';
import { linearTruth } from './data/regression.ts';
import { tokenizers } from './data/tokenizer.ts';
import { modelLayout } from './parameters.ts';

/** The settings that decide the architecture. */
type ModelSettings = Pick<
  Settings,
  'model' | 'tokens' | 'width' | 'layers' | 'heads' | 'context' | 'ffn' | 'hidden'
>;

/** The model of these settings. Regressions have as many features as the made-up examples of the linear truth. */
export function modelOf(settings: ModelSettings): ModelSpec {
  const features = linearTruth.weights.length;
  if (settings.model === 'linear') return { architecture: 'linear', features };
  const { width, layers, heads, context, ffn, hidden } = settings;
  if (settings.model === 'mlp') return { architecture: 'mlp', features, hidden };
  const { vocabulary } = tokenizers[settings.tokens];
  return { architecture: 'gpt', vocabulary, width, layers, heads, context, ffn };
}

/** The parameters of these settings, by name and shape. */
export const layoutOf = (settings: ModelSettings): Layout => modelLayout(modelOf(settings));
