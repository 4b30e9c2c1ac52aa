/** Opening a trainer thread on the device asked for, or on the best that works. */
import { ConfigError, TrainingError } from '../../base/errors.ts';
import type { TrainingProgram } from '../../model/training-program.ts';
import { requireEngine } from '../training-engine.ts';
import { CUDA_HINT, cudaProblem } from './cuda-libraries.ts';
import { type Engine, openReplicas, openSingle } from './engine.ts';
import type { Data, DataName, Device, Feeds } from './messages.ts';

export interface Opening {
  /** The program for batches of `rows`, with portable operators only or with all of them. */
  readonly compile: (rows: number, portable: boolean) => TrainingProgram;
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
}

export interface OpenTrainer {
  readonly engine: Engine;
  readonly program: TrainingProgram;
  readonly device: Device;
  readonly notice?: string;
}

const NO_DEVICE = 'training/no-device';

const HINTS: Readonly<Record<Device, string>> = {
  cpu: 'reinstall onnxruntime-node; it has CPU builds for linux, windows and macOS on arm64',
  cuda: CUDA_HINT,
  webgpu: 'it needs a GPU with a Vulkan, Metal or Direct3D 12 driver; or choose the cpu device',
};

/** Throws `training/no-device` when a device was named and does not work, `training/no-engine` without onnxruntime-node. */
export async function openTrainer(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
  requireEngine();
  if (wanted !== 'auto') return await openOn(wanted, opening);
  if (process.platform !== 'linux' || process.arch !== 'x64') return await openOn('cpu', opening);
  try {
    return await openOn('cuda', opening);
  } catch (error) {
    if (!(error instanceof TrainingError) || error.code !== NO_DEVICE) throw error;
    const notice = `training on the CPU: ${error.message}`;
    return { ...(await openOn('cpu', opening)), notice };
  }
}

/** What fails while the model is compiled is the model's, and leaves as it is; what fails while it is opened is the device's. */
async function openOn(device: Device, opening: Opening): Promise<OpenTrainer> {
  const problem = device === 'cuda' ? await cudaProblem() : undefined;
  if (problem !== undefined) throw noDevice(device, problem);
  const isCut = device === 'cpu' && opening.parts > 1;
  const open = isCut ? prepareParts(opening) : prepareSingle(device, opening);
  try {
    return { ...(await open()), device };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw device === 'cpu' && opening.isOwn ? notRunnable(error) : noDevice(device, error);
  }
}

function notRunnable(cause: unknown): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new TrainingError('model/engine', `onnxruntime does not run your model: ${reason}`, {
    hint: 'look at the ops that it names; `nostrain doctor` tells whether other models train here',
    cause,
  });
}

type Opened = Pick<OpenTrainer, 'engine' | 'program'>;

function noDevice(device: Device, cause: unknown): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `${device} does not work here: ${reason}`;
  return new TrainingError(NO_DEVICE, message, { hint: HINTS[device], cause });
}

/** Several threads, each with parts of the batch. */
function prepareParts(opening: Opening): () => Promise<Opened> {
  const { compile, data, masked = false, frozen, batch, parts, threads } = opening;
  const rows = batch / parts;
  const program = compile(rows, false);
  const { layout, optimizer } = program;
  const models = { evaluate: program.evaluate(), forward: program.forward() };
  const work = {
    gradient: program.gradient(),
    combine: program.combine(parts),
    updates: program.updates(parts),
    state: ['params', ...optimizer.moments],
    ...{ parts, rowsPerPart: rows, masked },
    rateCount: optimizer.rateCount,
    clipNorm: optimizer.clipNorm,
  };
  return async () => {
    const replicas = { device: 'cpu', threads, data, frozen, rows, ...models } as const;
    return { engine: await openReplicas(replicas, work, layout.size), program };
  };
}

/** One thread with the whole batch, in a Loop where the device has one. */
function prepareSingle(
  device: Device,
  { compile, data, frozen, batch, threads }: Opening,
): () => Promise<Opened> {
  const program = compile(batch, device === 'webgpu');
  const { layout, optimizer } = program;
  const loops = device !== 'webgpu';
  const state = ['params', ...optimizer.moments];
  const models = { evaluate: program.evaluate(), forward: program.forward() };
  const { rateCount } = optimizer;
  const model = loops ? program.loop() : program.step();
  return async () => {
    const engine = await openSingle(
      { device, threads, data, frozen, rows: batch, ...models },
      { kind: 'single', loops, model, state, batch, rateCount },
    );
    try {
      // a session may open on a device that then cannot run it
      await engine.begin(state.map(() => new Float32Array(layout.size)));
      const rates = new Float32Array(rateCount).fill(1e-6);
      if (device !== 'cpu') await engine.advance({ rates, rows: new Int32Array(batch) });
      return { engine, program };
    } catch (error) {
      await engine.close();
      throw error;
    }
  };
}
