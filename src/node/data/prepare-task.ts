/** From settings to something to train: the model's numbers, the optimizer's, and this worker's data. */
import { optimizerOf } from '../../model/from-settings.ts';
import { type EventSize, estimateEventSize } from '../../network/wire/event-size.ts';
import { measureGradient } from '../../python/wire/sizes.ts';
import { type FormName, formOf } from '../../run/data-forms.ts';
import type { Settings } from '../../run/settings.ts';
import type { Layout } from '../../tensor/params.ts';
import type { Stretch } from '../../tensor/partial-vector.ts';
import { mostChunks } from '../../worker/chunk-assignment.ts';
import { prepareImages } from './forms/images.ts';
import { prepareRows } from './forms/rows.ts';
import { prepareSeries } from './forms/series.ts';
import { prepareText } from './forms/text.ts';
import type { Sources, Task } from './task.ts';

type Prepare = (settings: Settings, sources: Sources) => Promise<Omit<Task, 'optimizer'>>;

/** By the form of data that a model reads: a new one is a file in `forms` and a line here. */
const prepares: Readonly<Record<FormName, Prepare>> = {
  tokens: prepareText,
  rows: prepareRows,
  series: prepareSeries,
  images: prepareImages,
};

/** Reads the data and sizes the model to it. */
export async function prepareTask(settings: Settings, sources: Sources): Promise<Task> {
  const task = await prepares[formOf(settings)](settings, sources);
  return { ...task, optimizer: optimizerOf(settings) };
}

/** How many workers the settings speak of. */
export const expectedWorkers = ({ sync, shard, waitFor }: Settings): number =>
  sync.strategy === 'strict' ? sync.workers : Math.max(1, shard.count, waitFor);

/** The largest event that a worker of these settings will send. */
export function largestEvent(
  settings: Settings,
  { layout, turns }: { readonly layout: Layout; readonly turns: readonly Stretch[] },
  workers = expectedWorkers(settings),
): EventSize {
  const { profile, run, packing, eventBudget, owners, fragments, topk: ratio } = settings;
  if (profile === 'nostrain/0') return measureGradient(run, layout, ratio);
  const most = mostChunks({ size: layout.size, owners, fragments, turns }, workers);
  return estimateEventSize({ run, size: layout.size, packing, eventBudget, most, ratio });
}
