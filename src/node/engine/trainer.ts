/** Training on onnxruntime-node in threads of this process, on the requested device or the best one that works. */
import { availableParallelism } from 'node:os';
import { TrainingError } from '../../base/errors.ts';
import type { Half } from '../../model/graph/lower.ts';
import type { StartThread } from '../../trainer/engine.ts';
import type { Device, ThreadResponse } from '../../trainer/messages.ts';
import type { TrainerSetup } from '../../trainer/setup.ts';
import {
  type Devices,
  NO_DEVICE,
  noDevice,
  type Opening,
  type OpenTrainer,
  openOn,
} from '../../trainer/setup.ts';
import { createTrainerOn, type EngineTrainer } from '../../trainer/trainer.ts';
import { openStored } from '../data/token-file.ts';
import { startThread } from '../start-thread.ts';
import { CUDA_HINT, cpuInfo, cudaProblem, hasDriver, requireEngine } from './onnxruntime.ts';

const hints: Readonly<Record<Device, string>> = {
  cpu: 'reinstall onnxruntime-node; it has CPU builds for linux, windows and macOS on arm64',
  cuda: CUDA_HINT,
  webgpu: 'it needs a GPU with a Vulkan, Metal or Direct3D 12 driver; or choose the cpu device',
};

const start: StartThread = ({ onAnswer, onEnd }) => {
  const worker = startThread('engine/thread');
  worker.on('message', (answer: ThreadResponse) => onAnswer(answer));
  worker.on('error', (error) => onEnd(`the trainer thread failed: ${error.message}`, error));
  worker.on('exit', (code) => onEnd(`the trainer thread ended with code ${code}`));
  return {
    post: (ask, transfer) => worker.postMessage(ask, transfer),
    terminate: async () => {
      await worker.terminate();
    },
  };
};

const devices: Devices = { start, hints };

/**
 * Opens a trainer. `auto` tries CUDA, then the CPU; in half precision only CUDA, since the CPU is slower with it than
 * in f32. Throws a TrainingError: `training/no-device` if the device does not work, `training/no-engine` without
 * onnxruntime-node.
 */
export async function openTrainer(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
  requireEngine();
  if (wanted !== 'auto') return await openOnDevice(wanted, opening);
  if (opening.half) return await openOnDevice('cuda', opening).catch(refuseHalf(opening.half));
  if (process.platform !== 'linux' || process.arch !== 'x64')
    return await openOnDevice('cpu', opening);
  try {
    return await openOnDevice('cuda', opening);
  } catch (error) {
    if (!(error instanceof TrainingError) || error.code !== NO_DEVICE) throw error;
    const opened = await openOnDevice('cpu', opening);
    return hasDriver() ? { ...opened, notice: `training on the CPU: ${error.message}` } : opened;
  }
}

const refuseHalf = (half: Half) => (cause: unknown) => {
  if (!(cause instanceof TrainingError) || cause.code !== NO_DEVICE) throw cause;
  throw new TrainingError(NO_DEVICE, `no device for ${half}: ${cause.message}`, {
    hint:
      'leave --precision out; or use --device webgpu if the GPU has f16; or --device cpu, which ' +
      'rounds as a GPU does and is slower than f32',
    cause,
  });
};

async function openOnDevice(device: Device, opening: Opening): Promise<OpenTrainer> {
  const problem = device === 'cuda' ? await cudaProblem() : undefined;
  if (problem !== undefined) throw noDevice(device, problem, CUDA_HINT);
  return await openOn(device, opening, devices);
}

/** Returns the number of physical cores that this process may use; logical ones if the system does not tell. */
export function physicalCores(): number {
  const cores = new Set<string>();
  for (const block of cpuInfo().split('\n\n')) {
    const core = /^core id\s*:\s*(\d+)/m.exec(block);
    const socket = /^physical id\s*:\s*(\d+)/m.exec(block);
    if (core && socket) cores.add(`${socket[1]}.${core[1]}`);
  }
  return Math.min(availableParallelism(), cores.size || Number.POSITIVE_INFINITY);
}

/** Starts the trainer thread and loads the model. Throws `training/no-device`, or a ConfigError for unfit data. */
export const createTrainer = (setup: TrainerSetup): Promise<EngineTrainer> =>
  createTrainerOn({ threads: physicalCores(), openStored, open: openTrainer }, setup);
