/** Checks the setup of a trainer, and opens its engine on a device. */
import { ConfigError, TrainingError, wordsOf } from '../base/errors.ts';
import type { FrozenTensor } from '../model/architectures/architecture.ts';
import { type AnyModel, dataFormOf, modelOf } from '../model/architectures/table.ts';
import type { OpenStored } from '../model/data/tokens.ts';
import type { Feed, Feeds } from '../model/feeds.ts';
import type { CheckedData, Data, DataName } from '../model/forms/form.ts';
import { holdData, type TrainerData } from '../model/forms/table.ts';
import type { Half } from '../model/graph/lower.ts';
import { initialParameters } from '../model/parameters.ts';
import { narrowFeeds } from '../model/precision.ts';
import type { CompileOptions, TrainingProgram } from '../model/training-program.ts';
import type { OptimizerSpec } from '../run/spec/model-spec.ts';
import { type Engine, openReplicas, openSingle, type StartThread } from './engine.ts';
import type { Device } from './messages.ts';

/** The values of a frozen tensor, or a function that reads them. */
export type FrozenNumbers = Float32Array | (() => Promise<Float32Array>);

/** Options of `createTrainer`: model, optimizer, data and device. */
export interface TrainerSetup
  extends Pick<CompileOptions, 'recompute' | 'accumulate' | 'precision'> {
  readonly model: AnyModel;
  readonly optimizer: OptimizerSpec;
  /** Rows per step. */
  readonly batch: number;
  readonly data: TrainerData;
  /** `auto` uses CUDA if it works, else the CPU. WebGPU must be named. */
  readonly device: 'auto' | Device;
  /**
   * Returns the frozen tensors by name, or functions that read them one at a time to save memory. Called once per
   * thread.
   */
  readonly frozen?: (() => Promise<Readonly<Record<string, FrozenNumbers>>>) | undefined;
  /** Default: the number of physical cores. Replicas are not used with micro-batches or another precision than f32. */
  readonly threads?: number | undefined;
}

/** Checks the data and returns it in the form that the model reads. Throws a ConfigError if it does not fit. */
export function checkSetup(
  { model, data, batch }: TrainerSetup,
  openStored: OpenStored,
): CheckedData {
  if (!Number.isSafeInteger(batch) || batch < 1) {
    throw new ConfigError('training/batch', `batch must be whole and positive, not ${batch}`);
  }
  return holdData(dataFormOf(model), data, { model: model.architecture, openStored });
}

/** Returns the frozen tensors in the model's shapes. Throws a ConfigError if one is missing or has another size. */
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
    Object.assign(feeds, narrowFeeds(tensor, checkFrozen(tensor, elements)));
  }
  return feeds;
}

function checkFrozen({ name, shape }: FrozenTensor, elements?: Float32Array): Float32Array {
  const size = shape.reduce((product, dim) => product * dim, 1);
  if (elements?.length === size) return elements;
  const problem = elements === undefined ? 'is missing' : `has ${elements.length} numbers`;
  throw new ConfigError('training/frozen', `frozen tensor ${name} ${problem}; it needs ${size}`, {
    hint: 'pass the frozen tensors that belong to this model',
  });
}

/** Throws `model/losses` if a user's model has a loss that is not finite with its initial parameters. */
export async function checkFirstLosses(
  model: AnyModel,
  { bound }: CheckedData,
  engine: Pick<Engine, 'setParams' | 'evaluate' | 'rows'>,
): Promise<void> {
  if (model.architecture !== 'own') return;
  const drawn = bound('shard');
  const rows = Int32Array.from({ length: engine.rows }, (_, i) => i % drawn);
  await engine.setParams(initialParameters(model, 1));
  const { losses } = await engine.evaluate({ on: 'shard', rows });
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at < 0) return;
  throw new ConfigError(
    'model/losses',
    `Your model's loss of row ${rows[at]} is ${losses[at]} with its initial parameters.`,
    {
      hint: 'look for a logarithm of 0 or a division by 0 in the loss, and in that row of the data',
    },
  );
}

export interface Opening {
  /** Compiles the program for batches of `rows` on a device. */
  readonly compile: (rows: number, target: Device) => TrainingProgram;
  readonly data: Readonly<Partial<Record<DataName, Data>>>;
  /** Whether the loss counts only some tokens. */
  readonly masked?: boolean;
  readonly frozen: () => Promise<Feeds>;
  /** Whether the user wrote the model: if the CPU cannot open it, the model is probably at fault. */
  readonly isUserModel: boolean;
  /** Rows per step. */
  readonly batch: number;
  /** Parts that a batch is divided into on the CPU; 1 leaves it whole. */
  readonly parts: number;
  readonly threads: number;
  /** Type of matrix products in training, if not f32; the batch is not divided then. */
  readonly half?: Half;
}

export interface OpenTrainer {
  readonly engine: Engine;
  readonly program: TrainingProgram;
  readonly device: Device;
  readonly notice?: string;
}

/** Code of the error for a device that does not work. */
export const NO_DEVICE = 'training/no-device';

/** How to start threads on this platform, and the hint for each device that does not work. */
export interface Devices {
  readonly start: StartThread;
  readonly hints: Readonly<Record<Device, string>>;
}

/** Opens the engine on a device. Errors from compiling are thrown as they are; those from opening blame the device. */
export async function openOn(
  device: Device,
  opening: Opening,
  { start, hints }: Devices,
): Promise<OpenTrainer> {
  if (opening.half === 'bf16' && device === 'webgpu') throw noBrainFloat();
  const isCut = device === 'cpu' && opening.parts > 1;
  const open = isCut ? prepareParts(start, opening) : prepareSingle(start, device, opening);
  try {
    return { ...(await open()), device };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw device === 'cpu' && opening.isUserModel
      ? notRunnable(error)
      : noDevice(device, error, opening.half ? HALF_HINT : hints[device]);
  }
}

const HALF_HINT = 'leave --precision out to train in f32';

const noBrainFloat = (): ConfigError =>
  new ConfigError('training/precision', 'onnxruntime does not support bf16 on WebGPU', {
    hint: 'use --precision f16 if the GPU supports it, or leave --precision out',
  });

function notRunnable(cause: unknown): TrainingError {
  return new TrainingError('model/engine', `onnxruntime cannot run your model: ${wordsOf(cause)}`, {
    hint: 'check the ops that it names; `nostrain doctor` shows whether other models train here',
    cause,
  });
}

type Opened = Pick<OpenTrainer, 'engine' | 'program'>;

/** Returns the error for a device that does not work. */
export function noDevice(device: Device, cause: unknown, hint: string): TrainingError {
  const message = `${device} does not work here: ${wordsOf(cause)}`;
  return new TrainingError(NO_DEVICE, message, { hint, cause });
}

/** Rows per run of the evaluation program; small, so that evaluating a few rows wastes little. */
const EVALUATED_ROWS = 8;

/** Compiles for several threads that each take parts of the batch. Returns the function that opens them. */
function prepareParts(start: StartThread, opening: Opening): () => Promise<Opened> {
  const { compile, data, masked = false, frozen, batch, parts, threads } = opening;
  const rows = batch / parts;
  const program = compile(rows, 'cpu');
  const { layout, optimizer } = program;
  const evaluated = rows % EVALUATED_ROWS === 0 ? EVALUATED_ROWS : rows;
  const evaluate = evaluated === rows ? program.evaluate() : compile(evaluated, 'cpu').evaluate();
  const models = { evaluate, forward: program.forward() };
  const work = {
    gradient: program.gradient(),
    combine: program.combine(parts),
    updates: program.updates(parts),
    state: ['params', ...optimizer.moments],
    parts,
    rowsPerPart: rows,
    masked,
    rateCount: optimizer.rateCount,
    clipNorm: optimizer.clipNorm,
  };
  return async () => {
    const shared = { device: 'cpu', threads, data, frozen, rows: evaluated, ...models } as const;
    return { engine: await openReplicas(start, shared, work, layout.size), program };
  };
}

/** Compiles for one thread with the whole batch, in a Loop unless on WebGPU. Returns the function that opens it. */
function prepareSingle(
  start: StartThread,
  device: Device,
  { compile, data, frozen, batch, threads, half }: Opening,
): () => Promise<Opened> {
  const program = compile(batch, device);
  const state = program.state.map(({ name }) => name);
  const models = { evaluate: program.evaluate(), forward: program.forward() };
  const { rateCount } = program.optimizer;
  const model = device === 'webgpu' ? program.step() : program.loop();
  return async () => {
    const engine = await openSingle(
      start,
      { device, threads, data, frozen, rows: batch, ...models, ...(half && { half }) },
      { kind: 'single', model, state, batch, rateCount },
    );
    try {
      // a session may open on a device and then fail to run there
      await engine.begin(program.state.map(({ first }) => first()));
      const rates = new Float32Array(rateCount).fill(1e-6);
      if (device !== 'cpu') await engine.advance({ rates, rows: new Int32Array(batch) });
      return { engine, program };
    } catch (error) {
      await engine.close();
      throw error;
    }
  };
}
