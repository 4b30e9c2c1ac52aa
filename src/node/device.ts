/** Which devices can train here, found out by training on each: lists of supported backends promise too much. */
import { fork } from 'node:child_process';
import { deriveKey } from '../base/rng.ts';
import type { Device } from '../trainer/messages.ts';
import { createTrainer } from './trainer/trainer.ts';

export interface DeviceReport {
  readonly device: Device;
  readonly works: boolean;
  /** How it went, for people. */
  readonly message: string;
}

const DEVICES: readonly Device[] = ['cpu', 'cuda', 'webgpu'];

/** Takes two steps of a small model on every device, each in a process of its own: drivers write to stderr, or end the process. */
export async function probeDevices(): Promise<readonly DeviceReport[]> {
  const reports: DeviceReport[] = [];
  for (const device of DEVICES) reports.push(await probeApart(device));
  return reports;
}

function probeApart(device: Device): Promise<DeviceReport> {
  const isSource = import.meta.url.endsWith('.ts');
  const entry = new URL(`./device-process.${isSource ? 'ts' : 'js'}`, import.meta.url);
  const child = fork(entry, [device], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: isSource ? ['--import', 'tsx', '--conditions=nostrain:source'] : [],
  });
  return new Promise((resolve) => {
    child.once('message', (report) => resolve(report as DeviceReport));
    child.once('error', (error) => resolve({ device, works: false, message: error.message }));
    child.once('exit', (code, signal) => {
      const message = `the engine ended its process (${signal ?? `exit ${code}`})`;
      resolve({ device, works: false, message });
    });
  });
}

/** Takes two steps of a small model there. */
export async function probeDevice(device: Device): Promise<DeviceReport> {
  try {
    const seconds = await trainBriefly(device);
    const message = `two training steps took ${(1000 * seconds).toFixed(1)} ms`;
    return { device, works: true, message };
  } catch (error) {
    return {
      device,
      works: false,
      message: error instanceof Error ? error.message : String(error),
    };
  }
}

async function trainBriefly(device: Device): Promise<number> {
  const features = 4;
  const trainer = await createTrainer({
    model: { architecture: 'mlp', features, hidden: [8] },
    optimizer: {
      optimizer: 'sgd',
      clipNorm: 1,
      schedule: { learningRate: 0.01, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
    },
    batch: 4,
    data: {
      kind: 'regression',
      features,
      inputs: new Float32Array(16 * features).fill(0.5),
      targets: new Float32Array(16).fill(1),
    },
    device,
    threads: 1,
  });
  try {
    const { seconds } = await trainer.train(
      {
        params: new Float32Array(trainer.layout.size).fill(0.1),
        moments: [],
        round: 0,
        steps: 2,
        firstStep: 0,
        batchKey: deriveKey('nostrain/probe'),
      },
      () => {},
      new AbortController().signal,
    );
    return seconds;
  } finally {
    await trainer.close();
  }
}
