/** What a trainer is given, checked before it is opened and once it is: what is wrong with a model or its data is no fault of the device. */
import { ConfigError } from '../base/errors.ts';
import type { FrozenTensor } from '../model/architectures/architecture.ts';
import { type AnyModel, modelOf } from '../model/architectures/table.ts';
import type { OpenStored } from '../model/data/token-reader.ts';
import { dataFormOf } from '../model/data-form.ts';
import type { Feed, Feeds, HeldData } from '../model/forms/form.ts';
import { holdData, type TrainerData } from '../model/forms/table.ts';
import { initialParameters } from '../model/parameters.ts';
import { narrow, partsOf } from '../model/precision.ts';
import type { Arithmetic, OptimizerSpec } from '../run/spec/model-spec.ts';
import type { Engine } from './engine.ts';
import type { Device } from './messages.ts';

/** The numbers of a frozen tensor, or what reads them. */
export type FrozenNumbers = Float32Array | (() => Promise<Float32Array>);

/** What `createTrainer` takes: model, optimizer, data and device. */
export interface TrainerSetup {
  readonly model: AnyModel;
  readonly optimizer: OptimizerSpec;
  /** Rows per step. */
  readonly batch: number;
  readonly data: TrainerData;
  /** `auto` is CUDA where it works, else the CPU; WebGPU only when asked for. */
  readonly device: 'auto' | Device;
  /**
   * Makes the model's frozen tensors by name, or says how to read each one: then no two of them are in memory in f32 at once. Called
   * once for each thread, which takes the arrays over.
   */
  readonly frozen?: () => Promise<Readonly<Record<string, FrozenNumbers>>>;
  /** Computes the inside of layers again for backward: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Micro-batches of every step, one after the other; as they need less memory, replicas are then not used. */
  readonly accumulate?: number;
  /** What matrix products of training are computed in, f32 unless said; the device has to have it, and replicas are then not used. */
  readonly precision?: Arithmetic;
  /** Defaults to the physical cores. */
  readonly threads?: number;
}

/** The data as the model reads it. Throws a `ConfigError` where it does not fit the model or itself. */
export function holdSetup({ model, data, batch }: TrainerSetup, openStored: OpenStored): HeldData {
  if (!Number.isSafeInteger(batch) || batch < 1) {
    throw new ConfigError('training/batch', `batch must be whole and positive, not ${batch}`);
  }
  return holdData(dataFormOf(model), data, { model: model.architecture, openStored });
}

/** The frozen tensors in the shapes of the model. Throws a ConfigError when one is missing or of another size. */
export async function frozenOf({
  model,
  frozen,
}: Pick<TrainerSetup, 'model' | 'frozen'>): Promise<Feeds> {
  const tensors = modelOf(model).frozen ?? [];
  const arrays = tensors.length === 0 ? {} : await frozen?.();
  const feeds: Record<string, Feed> = {};
  for (const tensor of tensors) {
    const numbers = arrays?.[tensor.name];
    const elements = typeof numbers === 'function' ? await numbers() : numbers;
    const held = narrow(checkFrozen(tensor, elements), tensor);
    partsOf(tensor).forEach(({ name, shape }, i) => {
      feeds[name] = { elements: held[i]!, shape };
    });
  }
  return feeds;
}

function checkFrozen({ name, shape }: FrozenTensor, elements?: Float32Array): Float32Array {
  const size = shape.reduce((product, dim) => product * dim, 1);
  if (elements?.length === size) return elements;
  const found = elements === undefined ? 'is missing' : `has ${elements.length} numbers`;
  throw new ConfigError('training/frozen', `frozen tensor ${name} ${found}; it needs ${size}`, {
    hint: 'give the tensors of the model that the parameters belong to',
  });
}

/** Throws `model/losses` where a model of the user's own gives a loss that is no number, with its first parameters and rows of its data. */
export async function checkFirstLosses(
  model: AnyModel,
  { bound }: HeldData,
  engine: Pick<Engine, 'hold' | 'evaluate' | 'rows'>,
): Promise<void> {
  if (model.architecture !== 'own') return;
  const drawn = bound('shard');
  const rows = Int32Array.from({ length: engine.rows }, (_, i) => i % drawn);
  await engine.hold(initialParameters(model, 1));
  const { losses } = await engine.evaluate('shard', rows);
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at < 0) return;
  throw new ConfigError(
    'model/losses',
    `Your model's loss of row ${rows[at]} is ${losses[at]} with its first parameters.`,
    { hint: 'look for logarithms or divisions of 0, in the losses and in that row of the data' },
  );
}
