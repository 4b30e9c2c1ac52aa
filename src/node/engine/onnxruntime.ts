/**
 * onnxruntime-node on this machine: its path, missing CUDA libraries, and the build name that fixes the bits of
 * steps.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { TrainingError } from '../../base/errors.ts';
import type { Arithmetic } from '../../run/spec/model-spec.ts';

/** The module's file. Throws `training/no-engine` where it is not installed. */
export function requireEngine(): string {
  try {
    return createRequire(import.meta.url).resolve('onnxruntime-node');
  } catch (error) {
    throw noEngine(error);
  }
}

const noEngine = (cause: unknown) =>
  new TrainingError('training/no-engine', 'training needs onnxruntime-node', {
    hint: ENGINE_HINT,
    cause,
  });

/** How to get it; the CPU build is inside the package, its script fetches CUDA libraries only. */
export const ENGINE_HINT =
  'install it beside nostrain: npm install onnxruntime-node@1.30.0 --ignore-scripts';

const run = promisify(execFile);
const PATIENCE_MS = 10_000;

/** By the beginning of the name of the file. */
const PARTS: readonly (readonly [start: string, part: string])[] = [
  ['libcudnn', 'cuDNN'],
  ['libcudart', 'CUDA runtime'],
  ['libcublas', 'cuBLAS, of CUDA'],
  ['libcufft', 'cuFFT of CUDA'],
  ['libcurand', 'cuRAND of CUDA'],
  ['libnvrtc', 'NVRTC, of CUDA'],
  ['libnvJitLink', 'nvJitLink, of CUDA'],
  ['libonnxruntime_providers', 'onnxruntime, the file beside the provider'],
  ['libcuda.', 'NVIDIA driver'],
];

/** Their numbers are not those of CUDA, or say nothing. */
const APART = new Set(['cuFFT of CUDA', 'cuRAND of CUDA', 'NVIDIA driver']);

/** What this file needs and the loader of this machine does not find; nothing where there is no loader to ask. */
export const missingLibraries = async (file: string): Promise<readonly string[]> =>
  namesMissing(await librariesOf(file));

const namesMissing = (libraries: readonly Needed[]): string[] =>
  libraries.flatMap(({ name, isFound }) => (isFound ? [] : [name]));

interface Needed {
  readonly name: string;
  readonly isFound: boolean;
}

async function librariesOf(file: string): Promise<readonly Needed[]> {
  const asked = run('ldd', [file], { timeout: PATIENCE_MS, env: { ...process.env, LC_ALL: 'C' } });
  const said = await asked.catch(() => ({ stdout: '' }));
  return [...said.stdout.matchAll(/^\s*(\S+) => (.+)$/gm)].map(([, name, found]) => ({
    name: name!,
    isFound: found !== 'not found',
  }));
}

/** `13`, of what a provider was built for. */
const cudaOf = (libraries: readonly Needed[]): string | undefined =>
  libraries.flatMap(({ name }) => /^libcudart\.so\.(\d+)/.exec(name)?.[1] ?? [])[0];

/** `libcublasLt.so.13 (cuBLAS, of CUDA 13) is missing`. */
export function wordMissing(libraries: readonly string[]): string {
  const words = libraries.map((name) => {
    const part = PARTS.find(([start]) => name.startsWith(start))?.[1];
    const version = /\.so\.(\d+)/.exec(name)?.[1];
    const isVersioned = version !== undefined && part !== undefined && !APART.has(part);
    return part === undefined ? name : `${name} (${part}${isVersioned ? ` ${version}` : ''})`;
  });
  return `${words.join(', ')} ${words.length === 1 ? 'is' : 'are'} missing`;
}

/** Whether the kernel has a driver of an NVIDIA card, here or below this Linux on Windows. */
const hasDriver = (): boolean =>
  existsSync('/proc/driver/nvidia/version') || existsSync('/dev/dxg');

export const CUDA_HINT =
  '`nostrain doctor --fix cuda` puts the provider in place, for CUDA 13; docs/devices.md says ' +
  'what brings the rest, all but the driver; or choose the cpu device';

export const PROVIDER = 'libonnxruntime_providers_cuda.so';

/** Where the parts of onnxruntime for a device are looked for. */
export const providerFolder = (): string =>
  join(dirname(requireEngine()), '../bin/napi-v6', process.platform, process.arch);

/**
 * Returns what CUDA lacks on this machine, if that shows before it is tried; trying it in vain prints errors of its
 * own.
 */
export async function cudaProblem(folder = providerFolder()): Promise<string | undefined> {
  const file = join(folder, PROVIDER);
  if (!existsSync(file)) return `${PROVIDER} is not installed`;
  const needed = await librariesOf(file);
  const missing = namesMissing(needed);
  if (missing.length === 0 && !hasDriver()) missing.push('libcuda.so.1');
  if (missing.length === 0) return undefined;
  const version = cudaOf(needed);
  const pairing = version === undefined ? '' : `; the provider here is for CUDA ${version}`;
  return `${wordMissing(missing)}${pairing}`;
}

/** Vector instructions that kernels are chosen by, the widest first. */
const VECTORS = ['avx512f', 'avx2', 'avx', 'sse4_2'];

/** Settings of a worker that change the order in which its numbers are added. */
export interface Computing {
  readonly device: string;
  readonly threads: number;
  readonly accumulate: number;
  readonly recompute: boolean;
  readonly precision: Arithmetic;
}

/** In ASCII, at most 128 characters. */
export function machineBuild({
  device,
  threads,
  accumulate,
  recompute,
  precision,
}: Computing): string {
  const machine = `${process.platform}-${process.arch}-${vectorsOf(cpuFlags())}`;
  const half = precision === 'f32' ? '' : ` ${precision}`;
  const micro = accumulate > 1 ? ` accumulate-${accumulate}` : '';
  const more = `${half}${micro}${recompute ? ' recompute' : ''}`;
  return `onnxruntime-node-${engineVersion()} ${machine} ${device} threads-${threads}${more}`;
}

/** What such a text says of the settings; the usual ones where it says nothing. */
export function computingOf(build: string): Omit<Computing, 'device' | 'precision'> {
  const number = (name: string) =>
    Number(new RegExp(` ${name}-([1-9][0-9]{0,3})(?: |$)`).exec(build)?.[1] ?? 1);
  return {
    threads: number('threads'),
    accumulate: number('accumulate'),
    recompute: build.endsWith(' recompute'),
  };
}

function engineVersion(): string {
  const require = createRequire(import.meta.url);
  for (
    let folder = dirname(requireEngine());
    folder !== dirname(folder);
    folder = dirname(folder)
  ) {
    try {
      const { name, version } = require(join(folder, 'package.json')) as {
        readonly name?: string;
        readonly version?: string;
      };
      if (name === 'onnxruntime-node' && version) return version;
    } catch {
      // none here: further up
    }
  }
  return 'unknown';
}

/** The widest of those that kernels are chosen by; `base` where the system does not say. */
const vectorsOf = (flags: readonly string[]): string =>
  VECTORS.find((name) => flags.includes(name)) ?? 'base';

const cpuFlags = (): readonly string[] =>
  (/^(?:flags|Features)\s*:\s*(.*)$/m.exec(cpuInfo())?.[1] ?? '').split(' ');

/** What Linux says of the processors; empty on other systems. */
export function cpuInfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return '';
  }
}
