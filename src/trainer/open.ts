/** Opening trainer threads on one device. */
import { ConfigError, TrainingError } from '../base/errors.ts';
import type { Data, DataName, Feeds } from '../model/forms/form.ts';
import type { Half } from '../model/graph/half.ts';
import type { TrainingProgram } from '../model/training-program.ts';
import { type Engine, openReplicas, openSingle, type StartThread } from './engine.ts';
import type { Device } from './messages.ts';

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

/** What fails while the model is compiled is the model's, and leaves as it is; what fails while it is opened is the device's. */
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

/** Rows of one run of the evaluating program: a row costs as much as of 16, and who measures on few need not fill up. */
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
