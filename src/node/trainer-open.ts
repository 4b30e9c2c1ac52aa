/** Opening a trainer thread on the device asked for, or on the best that works. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { TrainingError } from '../base/errors.ts';
import type { TrainingProgram } from '../model/training-program.ts';
import { createTrainerLink, type TrainerLink } from './trainer-link.ts';
import type { DataName, Device, Feeds, OpenRequest } from './trainer-messages.ts';

export interface Opening {
  /** The program with portable operators only, or with all of them. */
  readonly compile: (portable: boolean) => TrainingProgram;
  readonly data: Readonly<Partial<Record<DataName, Feeds>>>;
  readonly batch: number;
  readonly threads: number;
}

export interface OpenTrainer {
  readonly link: TrainerLink;
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

/** Throws `training/no-device` when a device was named and does not work. */
export async function openTrainer(wanted: 'auto' | Device, opening: Opening): Promise<OpenTrainer> {
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
  const entry = createRequire(import.meta.url).resolve('onnxruntime-node');
  const folder = join(dirname(entry), '../bin/napi-v6', process.platform, process.arch);
  if (!existsSync(join(folder, name))) throw noDevice('cuda', `${name} is not installed`);
}

async function openOn(device: Device, opening: Opening): Promise<OpenTrainer> {
  if (device === 'cuda') requireCuda();
  const link = createTrainerLink();
  try {
    const portable = device === 'webgpu';
    const program = opening.compile(portable);
    const request = openRequest(device, opening, program);
    await link.call('open', request);
    if (device !== 'cpu') await tryStep(link, request, program.layout.size);
    return { link, program, device };
  } catch (error) {
    await link.close();
    throw noDevice(device, error);
  }
}

function noDevice(device: Device, cause: unknown): TrainingError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `${device} does not work here: ${reason}`;
  return new TrainingError('training/no-device', message, { hint: HINTS[device], cause });
}

function openRequest(device: Device, opening: Opening, program: TrainingProgram): OpenRequest {
  const { data, batch, threads } = opening;
  const loops = device !== 'webgpu';
  return {
    device,
    threads,
    loops,
    models: {
      train: loops ? program.loop() : program.step(),
      evaluate: program.evaluate(),
      forward: program.forward(),
    },
    data,
    state: ['params', ...program.optimizer.moments],
    batch,
    rateCount: program.optimizer.rateCount,
  };
}

/** A session may open on a device that then cannot run it. */
async function tryStep(link: TrainerLink, request: OpenRequest, size: number): Promise<void> {
  await link.call(
    'begin',
    request.state.map(() => new Float32Array(size)),
  );
  const rates = new Float32Array(request.rateCount).fill(1e-6);
  await link.call('advance', { rates, rows: new Int32Array(request.batch) });
  await link.call('finish', null);
}
