/** The parameters a certified run starts from, by its spec alone: no data is needed to know them. */
import { modelOf } from '../model/from-settings.ts';
import { initialParameters, modelLayout } from '../model/parameters.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Params } from '../tensor/params.ts';

export function startOf({ training }: RunSpec): Params {
  const model = modelOf(training);
  return { layout: modelLayout(model), values: initialParameters(model, training.seed) };
}
