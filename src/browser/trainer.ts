/** Training in a browser: threads are Web Workers that run onnxruntime-web, on WebAssembly or on WebGPU. */
import { ConfigError, TrainingError } from '../base/errors.ts';
import type { OpenStored } from '../model/data/tokens.ts';
import type { StartThread } from '../trainer/engine.ts';
import type { Device, ThreadResponse } from '../trainer/messages.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import { NO_DEVICE, type Opening, type OpenTrainer, openOn } from '../trainer/setup.ts';
import { createTrainerOn, type EngineTrainer } from '../trainer/trainer.ts';

const hints: Readonly<Record<Device, string>> = {
  cpu: 'WebAssembly with SIMD is needed: every browser since 2023 has it',
  cuda: 'a browser has no CUDA: choose webgpu',
  webgpu: 'the browser shows no GPU to this page; leave device=webgpu out of the address',
};

/** One script for each build of onnxruntime: the one with WebGPU is twice the size. */
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
    worker.onmessageerror = () => onEnd('the trainer thread sent what cannot be read');
    return {
      post: (ask, transfer) => worker.postMessage(ask, [...transfer]),
      terminate: async () => worker.terminate(),
    };
  };

/** A page has no files of tokens. */
const openStored: OpenStored = () => {
  throw new ConfigError('training/data', 'a page holds its text in memory, not in files');
};

/** Without isolation threads share no memory: one of them takes all steps, with the whole batch. */
function openHere(device: Device, opening: Opening): Promise<OpenTrainer> {
  const parts = crossOriginIsolated ? opening.parts : 1;
  return openOn(device, { ...opening, parts }, { start: startOn(device), hints });
}

async function open(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
  if (wanted !== 'auto') return await openHere(wanted, opening);
  if (!('gpu' in navigator)) return await openHere('cpu', opening);
  try {
    return await openHere('webgpu', opening);
  } catch (error) {
    if (!(error instanceof TrainingError) || error.code !== NO_DEVICE) throw error;
    return {
      ...(await openHere('cpu', opening)),
      notice: `training on the CPU: ${error.message}`,
    };
  }
}

/** Most threads that a tab takes unasked: the page, its browser and other tabs want some too. */
const MOST_THREADS = 4;

const usualThreads = (): number =>
  crossOriginIsolated
    ? Math.max(1, Math.min(MOST_THREADS, Math.floor(navigator.hardwareConcurrency / 2)))
    : 1;

/** Starts the trainer threads of a tab. More than one only where the page is isolated (COOP and COEP). */
export const createTabTrainer = (setup: TrainerSetup): Promise<EngineTrainer> => {
  const threads = crossOriginIsolated ? setup.threads : 1;
  const given = threads === undefined ? setup : { ...setup, threads };
  return createTrainerOn({ threads: usualThreads(), openStored, open }, given);
};
