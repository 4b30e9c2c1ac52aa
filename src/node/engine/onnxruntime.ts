/**
 * onnxruntime-node on this machine: its path, missing CUDA libraries, and the build name that identifies the exact bits
 * of training steps.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { TrainingError } from '../../base/errors.ts';
import type { CompileOptions } from '../../model/training-program.ts';

/** Returns the path of the module. Throws a TrainingError (`training/no-engine`) if it is not installed. */
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

/** How to install it. The package contains the CPU build; its script only downloads CUDA libraries. */
export const ENGINE_HINT =
  'install it next to nostrain: npm install onnxruntime-node@1.30.0 --ignore-scripts';

const run = promisify(execFile);
/** Time limit of `ldd`, in milliseconds. */
const PATIENCE_MS = 10_000;

/** The product that a library belongs to, by the start of its file name. */
const PARTS: readonly (readonly [start: string, part: string])[] = [
  ['libcudnn', 'cuDNN'],
  ['libcudart', 'CUDA runtime'],
  ['libcublas', 'cuBLAS, of CUDA'],
  ['libcufft', 'cuFFT of CUDA'],
  ['libcurand', 'cuRAND of CUDA'],
  ['libnvrtc', 'NVRTC, of CUDA'],
  ['libnvJitLink', 'nvJitLink, of CUDA'],
  ['libonnxruntime_providers', 'onnxruntime, the file next to the provider'],
  ['libcuda.', 'NVIDIA driver'],
];

/** Products whose version number is not that of CUDA. */
const UNVERSIONED = new Set(['cuFFT of CUDA', 'cuRAND of CUDA', 'NVIDIA driver']);

/** Returns the libraries that a file needs and `ldd` does not find; empty on systems without `ldd`. */
export const missingLibraries = async (file: string): Promise<readonly string[]> =>
  namesMissing(await librariesOf(file));

const namesMissing = (libraries: readonly Needed[]): string[] =>
  libraries.flatMap(({ name, isInstalled }) => (isInstalled ? [] : [name]));

interface Needed {
  readonly name: string;
  readonly isInstalled: boolean;
}

async function librariesOf(file: string): Promise<readonly Needed[]> {
  const running = run('ldd', [file], {
    timeout: PATIENCE_MS,
    env: { ...process.env, LC_ALL: 'C' },
  });
  const output = await running.catch(() => ({ stdout: '' }));
  return [...output.stdout.matchAll(/^\s*(\S+) => (.+)$/gm)].map(([, name, path]) => ({
    name: name!,
    isInstalled: path !== 'not found',
  }));
}

/** Returns the major CUDA version that a provider was built for, such as `13`. */
const cudaOf = (libraries: readonly Needed[]): string | undefined =>
  libraries.flatMap(({ name }) => /^libcudart\.so\.(\d+)/.exec(name)?.[1] ?? [])[0];

/** Returns words such as `libcublasLt.so.13 (cuBLAS, of CUDA 13) is missing`. */
export function wordMissing(libraries: readonly string[]): string {
  const words = libraries.map((name) => {
    const part = PARTS.find(([start]) => name.startsWith(start))?.[1];
    const version = /\.so\.(\d+)/.exec(name)?.[1];
    const isVersioned = version !== undefined && part !== undefined && !UNVERSIONED.has(part);
    return part === undefined ? name : `${name} (${part}${isVersioned ? ` ${version}` : ''})`;
  });
  return `${words.join(', ')} ${words.length === 1 ? 'is' : 'are'} missing`;
}

/** Reports whether the kernel has an NVIDIA driver; under WSL that of Windows. */
export const hasDriver = (): boolean =>
  existsSync('/proc/driver/nvidia/version') || existsSync('/dev/dxg');

export const CUDA_HINT =
  'run `nostrain doctor --fix cuda` to install the provider for CUDA 13; docs/devices.md says ' +
  'how to install the other libraries and the driver; or choose the cpu device';

export const PROVIDER = 'libonnxruntime_providers_cuda.so';

/** Returns the folder in which onnxruntime looks for its providers. */
export const providerFolder = (): string =>
  join(dirname(requireEngine()), '../bin/napi-v6', process.platform, process.arch);

/**
 * Returns what CUDA lacks on this machine; undefined if nothing is known to be missing. Checking first avoids the
 * errors that onnxruntime prints when it fails to load CUDA.
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

/** Vector instruction sets that onnxruntime chooses kernels by, the widest first. */
const VECTORS = ['avx512f', 'avx2', 'avx', 'sse4_2'];

/** Settings of a worker that change the order of its additions, and so the exact bits. */
export interface Computing
  extends Required<Pick<CompileOptions, 'recompute' | 'accumulate' | 'precision'>> {
  readonly device: string;
  readonly threads: number;
}

/** Returns the build name of this machine and settings: ASCII, at most 128 characters. */
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

/** Parses the settings in a build name; settings that it does not name have their defaults. */
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
      // not in this folder: look in its parent
    }
  }
  return 'unknown';
}

/** Returns the widest instruction set in CPU flags; `base` if unknown. */
const vectorsOf = (flags: readonly string[]): string =>
  VECTORS.find((name) => flags.includes(name)) ?? 'base';

const cpuFlags = (): readonly string[] =>
  (/^(?:flags|Features)\s*:\s*(.*)$/m.exec(cpuInfo())?.[1] ?? '').split(' ');

/** Returns `/proc/cpuinfo`; empty on systems other than Linux. */
export function cpuInfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return '';
  }
}
