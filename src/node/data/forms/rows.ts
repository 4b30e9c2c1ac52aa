/** Rows of a regression on this machine: of the file that is named, or made up. */
import { asRows, dealRows, madeRows } from '../../../model/data/regression.ts';
import type { Settings } from '../../../run/settings.ts';
import type { ModelSpec } from '../../../run/spec/model-spec.ts';
import { readRows } from '../dataset-file.ts';
import type { Sources, Task } from '../task.ts';

export async function prepareRows(
  settings: Settings,
  sources: Sources,
): Promise<Omit<Task, 'optimizer'>> {
  const { own, validation } = await regressionData(settings, sources);
  const { features } = own;
  const model: ModelSpec =
    settings.model === 'linear'
      ? { architecture: 'linear', features }
      : { architecture: 'mlp', features, hidden: settings.hidden };
  const held = validation && { validation: asRows(validation) };
  const data = { kind: 'regression', features, ...asRows(own), ...held } as const;
  return { name: settings.model, model, data, tokensPerExample: 1 };
}

/** This worker's rows of a file, or made-up ones, of which those past the last shard are for validation. */
async function regressionData({ seed, shard }: Settings, { dataset, target }: Sources) {
  if (dataset !== undefined) return dealRows(await readRows(dataset, target), shard);
  return madeRows({ seed, shard });
}
