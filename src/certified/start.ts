/** The parameters a certified run starts from, by its spec alone: no data is needed to know them. */
import { linearTruth } from '../model/data/regression.ts';
import { tokenizers } from '../model/data/tokenizer.ts';
import { initialParameters, modelLayout } from '../model/parameters.ts';
import type { ModelSpec } from '../run/model-spec.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Params } from '../tensor/params.ts';

export function startOf({ training }: RunSpec): Params {
  const model = modelOf(training);
  return { layout: modelLayout(model), values: initialParameters(model, training.seed) };
}

/** What is trained. Regression is on made-up examples, which have as many features as their truth has weights. */
function modelOf(training: RunSpec['training']): ModelSpec {
  const features = linearTruth.weights.length;
  if (training.model === 'linear') return { architecture: 'linear', features };
  const { width, layers, heads, context, ffn, hidden } = training;
  if (training.model === 'mlp') return { architecture: 'mlp', features, hidden };
  const { vocabulary } = tokenizers[training.tokens];
  return { architecture: 'gpt', vocabulary, width, layers, heads, context, ffn };
}
