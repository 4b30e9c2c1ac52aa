/** Opens the trainer of a worker, and trainers that recompute the steps of other workers. */
import type { RecomputationTrainers } from '../../certified/features/feature.ts';
import { type AnyModel, tiersOf } from '../../model/architectures/table.ts';
import { fullModelOf, modelLayout } from '../../model/parameters.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import { formatShard, parseShard } from '../../run/field.ts';
import { helperSlice } from '../../run/helpers.ts';
import type { Settings } from '../../run/settings.ts';
import { settingsOf } from '../../run/spec/read-spec.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { slicesOf } from '../../tensor/params.ts';
import { helperTrainer } from '../../trainer/helper.ts';
import type { TrainerSetup } from '../../trainer/setup.ts';
import type { EngineTrainer } from '../../trainer/trainer.ts';
import type { MemoryData } from '../data/corpus.ts';
import type { FixedData } from '../data/sources.ts';
import { prepareTask, type Task } from '../data/task.ts';
import type { OpenedModel } from '../pretrained/imported-file.ts';
import { computingOf, machineBuild } from './onnxruntime.ts';
import { createTrainer } from './trainer.ts';

export interface OpeningTrainer {
  readonly settings: Settings;
  readonly device: TrainerSetup['device'];
  readonly threads?: number | undefined;
}

/** Opens the trainer of a task, with its origin: the shard and the build name. */
export async function openTrainer(
  task: Task,
  { settings, device, threads }: OpeningTrainer,
): Promise<EngineTrainer> {
  const { batchSize: batch, recompute, accumulate, precision, shard } = settings;
  const how = {
    batch,
    recompute,
    accumulate,
    precision,
    device,
    threads,
  };
  const trainer = asHelper(await createTrainer({ ...task, ...how }), task.model, settings);
  const build = machineBuild({ ...settings, ...trainer.device });
  return { ...trainer, origin: { shard: formatShard(shard), build } };
}

/** Returns the model that a worker stores: its tier, or for a helper the full model. */
export const storedModel = (model: AnyModel): AnyModel =>
  tiersOf(model)?.helps ? fullModelOf(model) : model;

/** Wraps the trainer if the worker is a helper; else returns it unchanged. */
function asHelper(
  trainer: EngineTrainer,
  model: AnyModel,
  { helperRotation }: Settings,
): EngineTrainer {
  const { count, tier, helps } = tiersOf(model) ?? {};
  if (count === undefined || tier === undefined || !helps) return trainer;
  const layout = modelLayout(fullModelOf(model));
  const slices = slicesOf(layout);
  const run = { count, rotation: helperRotation };
  return helperTrainer(trainer, {
    layout,
    tierEnd: slices[2 ** (count - tier) - 1]!.to,
    sliceRange: (round) => slices[helperSlice(run, tier, round)]!,
  });
}

export interface RecomputationOptions {
  readonly corpus?: string | MemoryData | undefined;
  /** Number of threads; by default that of the author of the steps. */
  readonly threads?: number | undefined;
  readonly openBase: OpenedModel | undefined;
  /** Path of the base model. */
  readonly base?: string | undefined;
  readonly signal: AbortSignal;
  onNotice(message: string): void;
}

/** Maximum number of threads: more than this machine has make training slow, and the bits no more equal. */
const MOST_THREADS = 64;

/** Opens trainers like those of the authors of manifests, on their shards with as many threads. Caches the last one. */
export class EngineRecomputation implements RecomputationTrainers {
  readonly #spec: RunSpec;
  readonly #options: RecomputationOptions;
  #open: { readonly name: string; readonly trainer: EngineTrainer } | undefined;

  constructor(spec: RunSpec, options: RecomputationOptions) {
    this.#spec = spec;
    this.#options = options;
  }

  /** Build name of the trainer that was used last. */
  get ours(): string {
    return this.#open?.trainer.origin?.build ?? '';
  }

  async like({ features }: Manifest): Promise<EngineTrainer> {
    const { shard: part = '1/1', build = '' } = features?.rerun ?? {};
    const { threads: authorThreads, accumulate, recompute } = computingOf(build);
    const threads = this.#options.threads ?? Math.min(authorThreads, MOST_THREADS);
    const name = [part, threads, accumulate, recompute].join();
    if (this.#open?.name === name) return this.#open.trainer;
    await this.close();
    const { base, openBase, corpus, signal, onNotice } = this.#options;
    const fixed = fixedData(this.#spec, undefined);
    const shard = parseShard(part) ?? { index: 1, count: 1 };
    const path = this.#spec.start && base !== undefined ? { base } : {};
    const settings = settingsOf(this.#spec, { relay: [], shard, accumulate, recompute, ...path });
    const task = await prepareTask(settings, { corpus, fixed, base: openBase, signal, onNotice });
    const trainer = await openTrainer(task, { settings, device: 'cpu', threads });
    this.#open = { name, trainer };
    return trainer;
  }

  async close(): Promise<void> {
    await this.#open?.trainer.close();
    this.#open = undefined;
  }
}

/** Returns the trainers that recompute the steps of others; undefined in a run without a jury. */
export const createRecomputation = (
  spec: RunSpec,
  openBase: OpenedModel | undefined,
  { base }: { readonly base: string },
  { corpus, signal }: Pick<RecomputationOptions, 'corpus' | 'signal'>,
): RecomputationTrainers | undefined =>
  spec.jury === 0
    ? undefined
    : new EngineRecomputation(spec, { corpus, openBase, base, signal, onNotice: () => undefined });

/** Returns what the spec fixes about the data and the model. */
export function fixedData(
  { data, dataFrom, start }: RunSpec,
  slice: Uint8Array | undefined,
): FixedData {
  if (data.kind === 'corpus')
    return { sha256: data.sha256, form: data.form, from: dataFrom, start };
  return slice === undefined ? { start } : { evaluation: slice, start };
}
