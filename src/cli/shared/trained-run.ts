/** What a run has learned, read from its folder, for whoever writes text with it or takes it elsewhere. */
import { stat } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import { modelLayout } from '../../model/parameters.ts';
import { type BaseModel, type OpenBase, openBase } from '../../node/base-model.ts';
import { keptBase, keptSettings } from '../../node/kept-settings.ts';
import { runFolderOf } from '../../node/local-runs.ts';
import type { TrainedRun } from '../../node/text-writer.ts';
import { readStateFile } from '../../python/node/state-io.ts';
import { presets } from '../../run/presets.ts';
import { completeSettings, type PartialSettings } from '../../run/settings.ts';
import { assertSameBase } from '../../run/start.ts';
import type { Layout } from '../../tensor/params.ts';

/** A run by its name or folder, or a state file; settings given here stand above those in the folder. */
export async function readTrainedRun(named: string, given: PartialSettings): Promise<TrainedRun> {
  const path = await runFolderOf(named);
  const { layout, values } = await readStateFile(path);
  const isFolder = (await stat(path)).isDirectory();
  const kept = isFolder ? await keptSettings(path) : {};
  const unused = { run: 'trained', relay: [] } as const;
  const isBased = given.base !== undefined && given.base !== '';
  const model = kept.model ?? (isBased ? 'pretrained' : 'char-gpt');
  const settings = completeSettings(presets[model], unused, { model }, kept, given);
  return { path, isFolder, settings, layout, values: Float32Array.from(values) };
}

/**
 * The published model that the run trained, or trained adapters for. Throws a ConfigError where the run has none (`base/none`) or
 * this one is another (`base/other`).
 */
export async function openTrainedBase(run: TrainedRun, options: OpenBase): Promise<BaseModel> {
  const { path, isFolder, settings, layout } = run;
  if (settings.model !== 'pretrained') {
    throw new ConfigError('base/none', `${path} holds a ${settings.model} model of its own`, {
      hint: 'only runs that train a published model have a base: those started with --base',
    });
  }
  const kept = isFolder ? await keptBase(path) : undefined;
  const base = await openBase(settings, { ...options, ...(kept && { wanted: kept.files }) });
  if (kept) assertSameBase(base, kept);
  assertSameTensors(run, base, layout);
  return base;
}

function assertSameTensors({ path }: TrainedRun, base: BaseModel, layout: Layout): void {
  const wanted = modelLayout(base.model);
  const strange = layout.slots.find(({ name, shape }, i) => {
    const slot = wanted.slots[i];
    return slot?.name !== name || slot.shape.join() !== shape.join();
  });
  if (strange === undefined && wanted.slots.length === layout.slots.length) return;
  const found = strange ? `${strange.name} as ${strange.shape.join(' x ')}` : 'too few tensors';
  throw new ConfigError('base/other', `${path} does not fit ${base.name}: it holds ${found}`, {
    hint: 'give the base it was trained on (--base), and --rank and --targets as they were',
  });
}
