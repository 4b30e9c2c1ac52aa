/** Training in a browser, in Web Workers that run onnxruntime-web on WebAssembly or WebGPU. */
import { ConfigError, TrainingError } from '../base/errors.ts';
import type { OpenStored } from '../model/data/tokens.ts';
import type { StartThread } from '../trainer/engine.ts';
import type { Device, ThreadResponse } from '../trainer/messages.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import { NO_DEVICE, type Opening, type OpenTrainer, openOn } from '../trainer/setup.ts';
import { createTrainerOn, type EngineTrainer } from '../trainer/trainer.ts';

const hints: Readonly<Record<Device, string>> = {
  cpu: 'use a browser with WebAssembly SIMD: all have it since 2023',
  cuda: 'browsers have no CUDA: use webgpu',
  webgpu: 'the browser gives this page no GPU: remove device=webgpu from the address',
};

/** Thread script per device. Each bundles another build of onnxruntime; the one with WebGPU is twice as large. */
const scripts: Readonly<Record<Device, string>> = {
  cpu: 'trainer-wasm.js',
  cuda: 'trainer-wasm.js',
  webgpu: 'trainer-webgpu.js',
};

const startOn =
  (device: Device): StartThread =>
  ({ onAnswer, onEnd }) => {
    const worker = new Worker(new URL(scripts[device], import.meta.url), { type: 'module' });
    worker.onmessage = ({ data }: MessageEvent<ThreadResponse>) => onAnswer(data);
    worker.onerror = ({ message }) => onEnd(`the trainer thread failed: ${message}`);
    worker.onmessageerror = () => onEnd('the trainer thread sent an unreadable message');
    return {
      post: (ask, transfer) => worker.postMessage(ask, [...transfer]),
      terminate: async () => worker.terminate(),
    };
  };

/** Throws: a page has no token files. */
const openStored: OpenStored = () => {
  throw new ConfigError('training/data', 'a page has its text in memory, not in files');
};

/** Opens a trainer on a device. Without isolation threads cannot share memory, so one thread takes the full batch. */
function openOnDevice(device: Device, opening: Opening): Promise<OpenTrainer> {
  const parts = crossOriginIsolated ? opening.parts : 1;
  return openOn(device, { ...opening, parts }, { start: startOn(device), hints });
}

async function open(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
  if (wanted !== 'auto') return await openOnDevice(wanted, opening);
  if (!('gpu' in navigator)) return await openOnCpu(opening, 'this browser has no WebGPU');
  try {
    return await openOnDevice('webgpu', opening);
  } catch (error) {
    if (!(error instanceof TrainingError) || error.code !== NO_DEVICE) throw error;
    return await openOnCpu(opening, error.message);
  }
}

/** Opens a trainer on the CPU for a tab that asked for no device, with a notice that says why. */
const openOnCpu = async (opening: Opening, reason: string): Promise<OpenTrainer> => ({
  ...(await openOnDevice('cpu', opening)),
  notice: `training on the CPU: ${reason}`,
});

/** Default limit of threads: the page, its browser and other tabs need some too. */
const MOST_THREADS = 4;

const usualThreads = (): number =>
  crossOriginIsolated
    ? Math.max(1, Math.min(MOST_THREADS, Math.floor(navigator.hardwareConcurrency / 2)))
    : 1;

/** Says why only one thread trains, and what to do; undefined if several can. */
export const threadNotice = (): string | undefined =>
  crossOriginIsolated
    ? undefined
    : 'training with one thread: this page is not isolated; for more threads open the link at a ' +
      'server that sends COOP and COEP headers, as `nostrain page --tab` does';

/** Starts the trainer threads of a tab; more than one only if the page is isolated (COOP and COEP). */
export const createTabTrainer = (setup: TrainerSetup): Promise<EngineTrainer> => {
  const threads = crossOriginIsolated ? setup.threads : 1;
  const given = threads === undefined ? setup : { ...setup, threads };
  return createTrainerOn({ threads: usualThreads(), openStored, open }, given);
};
