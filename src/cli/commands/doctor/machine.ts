/** What this machine offers to training: engine, devices, cores, memory, a place for runs. */
import { existsSync } from 'node:fs';
import { access, constants, rm, statfs, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { type DeviceReport, probeDevices } from '../../../node/engine/device.ts';
import { ENGINE_HINT } from '../../../node/engine/onnxruntime.ts';
import { physicalCores } from '../../../node/engine/trainer.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import type { Settings } from '../../../run/settings.ts';
import type { Check } from './check.ts';

const NEEDED_NODE = [20, 19] as const;
/** Less free memory than this and a run of the larger models swaps; less free disk and a run may not be saved. */
const LOW_MEMORY_BYTES = 1e9;
const LOW_DISK_BYTES = 2e8;

/** Devices are tried on the model of these settings. */
export async function checkMachine(settings: Settings): Promise<readonly Check[]> {
  return [
    checkNode(process.versions.node),
    checkEngine(),
    ...(await probeDevices(settings)).map(wordDevice),
    ...checkCores(),
  ].concat(await checkFolder(dataHome()));
}

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isEnough = major > NEEDED_NODE[0] || (major === NEEDED_NODE[0] && minor >= NEEDED_NODE[1]);
  const words = `${version} (needs ${NEEDED_NODE.join('.')} or newer)`;
  if (isEnough) return { name: 'node', level: 'ok', words };
  return { name: 'node', level: 'broken', words, hint: 'install a newer Node.js' };
}

function checkEngine(): Check {
  const name = 'onnxruntime-node';
  try {
    const { version } = createRequire(import.meta.url)(`${name}/package.json`);
    return { name, level: 'ok', words: String(version) };
  } catch {
    return { name, level: 'broken', words: 'not installed', hint: ENGINE_HINT };
  }
}

/** Only the CPU is needed, and only the CPU was ever timed by us. */
export function wordDevice({ device, works, message, halves }: DeviceReport): Check {
  const name = `device ${device}`;
  const why = message.replace(`${device} does not work here: `, '').split(' was false. ').at(-1)!;
  const words = works ? `works: ${message}` : `not here: ${why.trim().replace(/\s+/g, ' ')}`;
  if (device !== 'cpu') {
    const half = works ? `; half precision: ${halves.join(', ') || 'none'}` : '';
    return { name, level: works ? 'ok' : 'absent', words: `${words}${half} (not measured by us)` };
  }
  if (works) return { name, level: 'ok', words };
  return { name, level: 'broken', words, hint: 'reinstall onnxruntime-node' };
}

function checkCores(): readonly Check[] {
  const physical = physicalCores();
  const cores = `${availableParallelism()} hardware threads; training uses ${physical} unless told otherwise with --threads`;
  const limit = process.constrainedMemory() || totalmem();
  const free = Math.min(freemem(), limit);
  return [
    { name: 'cores', level: 'ok', words: cores },
    {
      name: 'memory',
      level: free < LOW_MEMORY_BYTES ? 'note' : 'ok',
      words: `${gigabytes(free)} free of ${gigabytes(Math.min(limit, totalmem()))}`,
    },
  ];
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;

/** Writes to the data folder, or asks whether it could be made. */
export async function checkFolder(folder: string): Promise<Check> {
  const name = 'data folder';
  const parent = existingPart(folder);
  try {
    if (parent === folder) {
      const file = join(folder, `.doctor-${process.pid}`);
      await writeFile(file, '');
      await rm(file);
    } else await access(parent, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = await statfs(parent);
    const free = bavail * bsize;
    const words = `${folder} can be written, ${gigabytes(free)} free`;
    return { name, level: free < LOW_DISK_BYTES ? 'note' : 'ok', words };
  } catch (error) {
    const words = `${folder} cannot be written: ${(error as Error).message}`;
    const hint = 'set NOSTRAIN_HOME to a folder you may write to';
    return { name, level: 'broken', words, hint };
  }
}

function existingPart(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : existingPart(dirname(folder));
}
