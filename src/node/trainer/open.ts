/** Opening a trainer thread on the device asked for, or on the best that works. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ConfigError, TrainingError } from '../../base/errors.ts';
import type { TrainingProgram } from '../../model/training-program.ts';
import { requireEngine } from '../training-engine.ts';
import { type Engine, openReplicas, openSingle } from './engine.ts';
import type { DataName, Device, Feeds } from './messages.ts';

export interface Opening {
  /** The program for batches of `rows`, with portable operators only or with all of them. */
  readonly compile: (rows: number, portable: boolean) => TrainingProgram;
  readonly data: Readonly<Partial<Record<DataName, Feeds>>>;
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

const HINTS: Readonly<Record<Device, string>> = {
  cpu: 'reinstall onnxruntime-node; it has CPU builds for linux, windows and macOS on arm64',
  cuda:
    'on linux x64 with CUDA 12 and cuDNN 9 libraries, run ' +
    '`ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install.js`; or choose the cpu device',
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
    const reason = error instanceof Error ? error.message : String(error);
    return { ...(await openOn('cpu', opening)), notice: `training on the CPU: ${reason}` };
  }
}

/** The CUDA part of onnxruntime is not in its npm package; asking for it in vain prints errors of its own. */
function requireCuda(): void {
  const name = 'libonnxruntime_providers_cuda.so';
  const folder = join(dirname(requireEngine()), '../bin/napi-v6', process.platform, process.arch);
  if (!existsSync(join(folder, name))) throw noDevice('cuda', `${name} is not installed`);
}

async function openOn(device: Device, opening: Opening): Promise<OpenTrainer> {
  if (device === 'cuda') requireCuda();
  try {
    const opened =
      device === 'cpu' && opening.parts > 1
        ? await openParts(opening)
        : await openSingleOn(device, opening);
    return { ...opened, device };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw noDevice(device, error);
  }
}

function noDevice(device: Device, cause: unknown): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `${device} does not work here: ${reason}`;
  return new TrainingError('training/no-device', message, { hint: HINTS[device], cause });
}

/** Several threads, each with parts of the batch. */
async function openParts({ compile, data, batch, parts, threads }: Opening) {
  const rows = batch / parts;
  const program = compile(rows, false);
  const { layout, optimizer } = program;
  const engine = await openReplicas(
    {
      device: 'cpu',
      threads,
      data,
      rows,
      evaluate: program.evaluate(),
      forward: program.forward(),
    },
    {
      gradient: program.gradient(),
      combine: program.combine(parts),
      updates: program.updates(parts),
      state: ['params', ...optimizer.moments],
      parts,
      rowsPerPart: rows,
      rateCount: optimizer.rateCount,
      clipNorm: optimizer.clipNorm,
    },
    layout.size,
  );
  return { engine, program };
}

/** One thread with the whole batch, in a Loop where the device has one. */
async function openSingleOn(device: Device, { compile, data, batch, threads }: Opening) {
  const program = compile(batch, device === 'webgpu');
  const { layout, optimizer } = program;
  const loops = device !== 'webgpu';
  const state = ['params', ...optimizer.moments];
  const engine = await openSingle(
    {
      device,
      threads,
      data,
      rows: batch,
      evaluate: program.evaluate(),
      forward: program.forward(),
    },
    {
      kind: 'single',
      loops,
      model: loops ? program.loop() : program.step(),
      state,
      batch,
      rateCount: optimizer.rateCount,
    },
  );
  try {
    // a session may open on a device that then cannot run it
    await engine.begin(state.map(() => new Float32Array(layout.size)));
    const rates = new Float32Array(optimizer.rateCount).fill(1e-6);
    if (device !== 'cpu') await engine.advance({ rates, rows: new Int32Array(batch) });
    return { engine, program };
  } catch (error) {
    await engine.close();
    throw error;
  }
}
