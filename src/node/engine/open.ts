/** Opening trainer threads of this machine on the device asked for, or on the best that works. */
import { TrainingError } from '../../base/errors.ts';
import type { Half } from '../../model/graph/half.ts';
import type { StartThread } from '../../trainer/engine.ts';
import type { Answer, Device } from '../../trainer/messages.ts';
import {
  type Devices,
  NO_DEVICE,
  noDevice,
  type Opening,
  type OpenTrainer,
  openOn,
} from '../../trainer/open.ts';
import { startThread } from '../start-thread.ts';
import { CUDA_HINT, cudaProblem } from './cuda-libraries.ts';
import { requireEngine } from './training-engine.ts';

const hints: Readonly<Record<Device, string>> = {
  cpu: 'reinstall onnxruntime-node; it has CPU builds for linux, windows and macOS on arm64',
  cuda: CUDA_HINT,
  webgpu: 'it needs a GPU with a Vulkan, Metal or Direct3D 12 driver; or choose the cpu device',
};

const start: StartThread = ({ onAnswer, onEnd }) => {
  const worker = startThread('engine/thread');
  worker.on('message', (answer: Answer) => onAnswer(answer));
  worker.on('error', (error) => onEnd(`the trainer thread failed: ${error.message}`, error));
  worker.on('exit', (code) => onEnd(`the trainer thread ended with code ${code}`));
  return {
    post: (ask, handOver) => worker.postMessage(ask, handOver),
    terminate: async () => {
      await worker.terminate();
    },
  };
};

const devices: Devices = { start, hints };

/**
 * Throws `training/no-device` when a device was named and does not work, `training/no-engine` without onnxruntime-node. Half precision, which is
 * slower on the CPU than f32, is not taken there unasked.
 */
export async function openTrainer(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
  requireEngine();
  if (wanted !== 'auto') return await openHere(wanted, opening);
  if (opening.half) return await openHere('cuda', opening).catch(refuseHalf(opening.half));
  if (process.platform !== 'linux' || process.arch !== 'x64') return await openHere('cpu', opening);
  try {
    return await openHere('cuda', opening);
  } catch (error) {
    if (!(error instanceof TrainingError) || error.code !== NO_DEVICE) throw error;
    const notice = `training on the CPU: ${error.message}`;
    return { ...(await openHere('cpu', opening)), notice };
  }
}

const refuseHalf = (half: Half) => (cause: unknown) => {
  if (!(cause instanceof TrainingError) || cause.code !== NO_DEVICE) throw cause;
  throw new TrainingError(NO_DEVICE, `no device for ${half}: ${cause.message}`, {
    hint: 'leave --precision out; or --device webgpu where that GPU has f16; or --device cpu, which rounds as a GPU does and is slower than in f32',
    cause,
  });
};

async function openHere(device: Device, opening: Opening): Promise<OpenTrainer> {
  const problem = device === 'cuda' ? await cudaProblem() : undefined;
  if (problem !== undefined) throw noDevice(device, problem, CUDA_HINT);
  return await openOn(device, opening, devices);
}
