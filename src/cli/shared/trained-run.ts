/** What a run has learned, read from its folder, for whoever writes text with it or takes it elsewhere. */
import { stat } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import { ringIn, tierWith } from '../../model/architectures/rings.ts';
import { modelLayout } from '../../model/parameters.ts';
import { runFolderOf } from '../../node/files/local-runs.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { keptBase, keptSettings } from '../../node/files/stored-settings.ts';
import { numbersFor, type TrainedRun } from '../../node/files/text-writer.ts';
import { type BaseModel, type OpenBase, openBase } from '../../node/pretrained/base-model.ts';
import { completeSettings, type PartialSettings, type Settings } from '../../run/settings.ts';
import { presets } from '../../run/spec/presets.ts';
import { assertSameBase } from '../../run/spec/start.ts';
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
  // a helper keeps the whole model
  const held = kept.helper ? { ...kept, helper: false, tier: '0' as const } : kept;
  const settings = completeSettings(presets[model], unused, { model }, held, given);
  const run = { path, isFolder, layout, values: Float32Array.from(values) };
  return { ...run, settings: withTierOf(settings, layout) };
}

/** Of a state with tiers the largest that it holds, where none is named. */
function withTierOf(settings: Settings, { slots }: Layout): Settings {
  const { tiers, tier, helperRotation } = settings;
  if (tiers === 0 || tier !== 'auto') return settings;
  const rings = 1 + Math.max(...slots.map(({ name }) => ringIn(name)));
  const own = tierWith({ count: tiers, even: helperRotation > 0 }, rings);
  return { ...settings, tier: `${own}` as Settings['tier'] };
}

/** A published model, and the numbers that a run has learned of it by the layout of `base.model`. */
export interface TrainedBase {
  readonly base: BaseModel;
  readonly values: Float32Array;
}

/** The base that the run trained. Throws a ConfigError if there is none (`base/none`) or another (`base/other`). */
export async function openTrainedBase(run: TrainedRun, options: OpenBase): Promise<TrainedBase> {
  const { path, isFolder, settings, layout } = run;
  if (settings.model !== 'pretrained') {
    throw new ConfigError('base/none', `${path} holds a ${settings.model} model of its own`, {
      hint: 'only runs that train a published model have a base: those started with --base',
    });
  }
  const kept = isFolder ? await keptBase(path) : undefined;
  const wanted = kept && settings.tiers === 0 ? { wanted: kept.files } : {};
  const base = await openBase(settings, { ...options, ...wanted });
  if (kept) assertSameBase(base, kept);
  const values = numbersFor(run, modelLayout(base.model));
  if (values === undefined) throw otherTensors(run, base, layout);
  return { base, values };
}

function otherTensors(
  { path }: TrainedRun,
  { name, model }: BaseModel,
  { slots }: Layout,
): ConfigError {
  const wanted = new Map(modelLayout(model).slots.map((slot) => [slot.name, slot.shape.join()]));
  const strange = slots.find(({ name, shape }) => wanted.get(name) !== shape.join());
  const found = strange ? `${strange.name} as ${strange.shape.join(' x ')}` : 'too few tensors';
  return new ConfigError('base/other', `${path} does not fit ${name}: it holds ${found}`, {
    hint: 'give the base it was trained on (--base), and --rank and targets as they were',
  });
}
