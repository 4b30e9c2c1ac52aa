/**
 * What a trainer is given, checked before it is opened, and the engine that is opened for it on the device that works.
 */
import { ConfigError, TrainingError } from '../base/errors.ts';
import type { FrozenTensor } from '../model/architectures/architecture.ts';
import { type AnyModel, dataFormOf, modelOf } from '../model/architectures/table.ts';
import type { OpenStored } from '../model/data/tokens.ts';
import type { CheckedData, Data, DataName, Feed, Feeds } from '../model/forms/form.ts';
import { holdData, type TrainerData } from '../model/forms/table.ts';
import type { Half } from '../model/graph/lower.ts';
import { initialParameters } from '../model/parameters.ts';
import { narrow, partsOf } from '../model/precision.ts';
import type { TrainingProgram } from '../model/training-program.ts';
import type { Arithmetic, OptimizerSpec } from '../run/spec/model-spec.ts';
import { type Engine, openReplicas, openSingle, type StartThread } from './engine.ts';
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
   * Makes the frozen tensors by name, or reads each one, so that no two are in memory in f32 at once. Called once a
   * thread.
   */
  readonly frozen?: (() => Promise<Readonly<Record<string, FrozenNumbers>>>) | undefined;
  /** Computes the inside of layers again for backward: less memory, a third more time. */
  readonly recompute?: boolean;
  /** Micro-batches of every step, one after the other; as they need less memory, replicas are then not used. */
  readonly accumulate?: number;
  /** Type of matrix products in training, default f32; the device must have it, and replicas are not used. */
  readonly precision?: Arithmetic;
  /** Defaults to the physical cores. */
  readonly threads?: number | undefined;
}

/** The data as the model reads it. Throws a `ConfigError` where it does not fit the model or itself. */
export function holdSetup(
  { model, data, batch }: TrainerSetup,
  openStored: OpenStored,
): CheckedData {
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

/** Throws `model/losses` if a user's own model gives a loss that is no number with its first parameters. */
export async function checkFirstLosses(
  model: AnyModel,
  { bound }: CheckedData,
  engine: Pick<Engine, 'hold' | 'evaluate' | 'rows'>,
): Promise<void> {
  if (model.architecture !== 'own') return;
  const drawn = bound('shard');
  const rows = Int32Array.from({ length: engine.rows }, (_, i) => i % drawn);
  await engine.hold(initialParameters(model, 1));
  const { losses } = await engine.evaluate({ on: 'shard', rows });
  const at = losses.findIndex((loss) => !Number.isFinite(loss));
  if (at < 0) return;
  throw new ConfigError(
    'model/losses',
    `Your model's loss of row ${rows[at]} is ${losses[at]} with its first parameters.`,
    { hint: 'look for logarithms or divisions of 0, in the losses and in that row of the data' },
  );
}

export interface Opening {
  /** The program for batches of `rows`, for one device. */
  readonly compile: (rows: number, target: Device) => TrainingProgram;
  readonly data: Readonly<Partial<Record<DataName, Data>>>;
  /** Only some tokens of the data count. */
  readonly masked?: boolean;
  readonly frozen: () => Promise<Feeds>;
  /** The model is the user's own: what the CPU cannot open is more likely its fault. */
  readonly isOwn: boolean;
  /** Rows per step. */
  readonly batch: number;
  /** Into how many parts a batch is cut on the CPU; 1 leaves it whole. */
  readonly parts: number;
  readonly threads: number;
  /** What products of the steps are in, where not in f32; the batch is whole then. */
  readonly half?: Half;
}

export interface OpenTrainer {
  readonly engine: Engine;
  readonly program: TrainingProgram;
  readonly device: Device;
  readonly notice?: string;
}

/** The code of the error that says that a device does not work. */
export const NO_DEVICE = 'training/no-device';

/** How threads are started here, and what to say of a device that does not work. */
export interface Devices {
  readonly start: StartThread;
  readonly hints: Readonly<Record<Device, string>>;
}

/** An error while compiling is the model's and is rethrown; an error while opening is the device's. */
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
    throw device === 'cpu' && opening.isOwn
      ? notRunnable(error)
      : noDevice(device, error, opening.half ? HALF_HINT : hints[device]);
  }
}

const HALF_HINT = 'leave --precision out: training in f32 takes no half precision of the device';

const noBrainFloat = (): ConfigError =>
  new ConfigError('training/precision', 'onnxruntime has no bf16 on WebGPU', {
    hint: 'take --precision f16 where the GPU has it, or leave --precision out',
  });

function notRunnable(cause: unknown): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new TrainingError('model/engine', `onnxruntime does not run your model: ${reason}`, {
    hint: 'look at the ops that it names; `nostrain doctor` tells whether other models train here',
    cause,
  });
}

type Opened = Pick<OpenTrainer, 'engine' | 'program'>;

/** The error that says so. */
export function noDevice(device: Device, cause: unknown, hint: string): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `${device} does not work here: ${reason}`;
  return new TrainingError(NO_DEVICE, message, { hint, cause });
}

/** Rows of one run of the evaluation program: few, so that measuring on few rows wastes none. */
const EVALUATED_ROWS = 8;

/** Several threads, each with parts of the batch. */
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

/** One thread with the whole batch, in a Loop where the device has one. */
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
      // a session may open on a device that then cannot run it
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
