/** Finds the devices of this machine that can train a model, by training it briefly on each. */
import { fork } from 'node:child_process';
import { deriveKey } from '../../base/rng.ts';
import { dataFormOf } from '../../model/architectures/table.ts';
import { rulesOf } from '../../model/forms/table.ts';
import { modelOf, optimizerOf } from '../../model/from-settings.ts';
import type { Half } from '../../model/graph/lower.ts';
import { initialParameters } from '../../model/parameters.ts';
import {
  completeSettings,
  readSettings,
  type Settings,
  writeSettings,
} from '../../run/settings.ts';
import { presets } from '../../run/spec/presets.ts';
import type { Device } from '../../trainer/messages.ts';
import type { TrainerSetup } from '../../trainer/setup.ts';
import { openBase } from '../pretrained/base-model.ts';
import { createTrainer } from './trainer.ts';

export interface DeviceReport {
  readonly device: Device;
  readonly works: boolean;
  readonly message: string;
  /** Half precisions that the device can train in; empty if it does not work. */
  readonly halves: readonly Half[];
}

const DEVICES: readonly Device[] = ['cpu', 'cuda', 'webgpu'];
const HALVES: readonly Half[] = ['f16', 'bf16'];
/** A probe's batch is small, but enough to run every operator. */
const PROBE: Brief = { rows: 2, steps: 2 };

/** Trains two steps on every device, each in a process of its own: drivers may write to stderr or end the process. */
export async function probeDevices(settings: Settings): Promise<readonly DeviceReport[]> {
  const reports: DeviceReport[] = [];
  for (const device of DEVICES) reports.push(await probeApart(device, settings));
  return reports;
}

function probeApart(device: Device, settings: Settings): Promise<DeviceReport> {
  const isSource = import.meta.url.endsWith('.ts');
  const entry = new URL(`./device-process.${isSource ? 'ts' : 'js'}`, import.meta.url);
  // without relays: they are not probed here, and an empty list is not valid
  const { relay: _, ...withoutRelays } = settings;
  const child = fork(entry, [device, JSON.stringify(writeSettings(withoutRelays))], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: isSource ? ['--import', 'tsx', '--conditions=nostrain:source'] : [],
  });
  return new Promise((resolve) => {
    child.once('message', (report) => resolve(report as DeviceReport));
    const broken = (message: string) => resolve({ device, works: false, message, halves: [] });
    child.once('error', (error) => broken(error.message));
    child.once('exit', (code, signal) => {
      broken(`the engine ended its process (${signal ?? `exit ${code}`})`);
    });
  });
}

export async function probeDevice(
  device: Device,
  written: Readonly<Record<string, unknown>>,
): Promise<DeviceReport> {
  try {
    const settings = completeSettings({ relay: [] }, readSettings(written, 'settings'));
    const { seconds, parameters } = await trainBriefly(device, settings, PROBE);
    const took = `${(1000 * seconds).toFixed(0)} ms`;
    const message =
      `two steps of ${settings.model} with ${parameters.toLocaleString('en')} ` +
      `parameters took ${took}`;
    return { device, works: true, message, halves: await halvesOf(device) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { device, works: false, message, halves: [] };
  }
}

/** Returns the half precisions that the smallest model can be trained in; none on the CPU, which emulates them. */
async function halvesOf(device: Device): Promise<readonly Half[]> {
  const works: Half[] = [];
  if (device === 'cpu') return works;
  const smallest = completeSettings(presets.linear, { model: 'linear', run: 'probe', relay: [] });
  for (const precision of HALVES) {
    const trained = trainBriefly(device, { ...smallest, precision }, PROBE);
    if (await trained.then(() => true).catch(() => false)) works.push(precision);
  }
  return works;
}

interface Brief {
  /** Maximum rows of a batch. */
  readonly rows: number;
  readonly steps: number;
  /** Steps before those that are timed. */
  readonly warmUp?: number;
  readonly threads?: number;
}

/** Trains a few steps on random data and returns the seconds that they took. */
export async function trainBriefly(
  device: Device,
  settings: Settings,
  { rows, steps, warmUp = 0, threads }: Brief,
) {
  const { model, frozen } = await openModel(settings);
  const trainer = await createTrainer({
    model,
    device,
    frozen,
    optimizer: optimizerOf(settings),
    threads,
    batch: Math.min(settings.batchSize, rows),
    recompute: settings.recompute,
    precision: settings.precision,
    data: rulesOf(dataFormOf(model)).anything(),
  });
  try {
    const params = initialParameters(model, 1);
    const batchKey = deriveKey('nostrain/probe');
    const train = (count: number) =>
      trainer.train(
        { params, moments: [], round: 0, steps: count, firstStep: 0, batchKey },
        () => {},
        new AbortController().signal,
      );
    if (warmUp > 0) await train(warmUp);
    const { seconds } = await train(steps);
    return { seconds, parameters: params.length };
  } finally {
    await trainer.close();
  }
}

async function openModel(settings: Settings): Promise<Pick<TrainerSetup, 'model' | 'frozen'>> {
  if (settings.model !== 'pretrained') return { model: modelOf(settings) };
  const { signal } = new AbortController();
  const { model, frozen } = await openBase(settings, { onNotice: () => {}, signal });
  return { model, frozen };
}
