/** Which shared libraries the CUDA part of onnxruntime lacks on this machine, and where each of them comes from. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { requireEngine } from './training-engine.ts';

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
  (await librariesOf(file)).flatMap(({ name, isFound }) => (isFound ? [] : [name]));

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

/** How to get all of it. */
export const CUDA_HINT =
  '`nostrain doctor --fix cuda` puts the provider in place, for CUDA 13; docs/devices.md says what brings the rest, all but the ' +
  'driver; or choose the cpu device';

export const PROVIDER = 'libonnxruntime_providers_cuda.so';

/** Where the parts of onnxruntime for a device are looked for. */
export const providerFolder = (): string =>
  join(dirname(requireEngine()), '../bin/napi-v6', process.platform, process.arch);

/**
 * What CUDA lacks here, if anything is known of it before it is tried. Its part of onnxruntime is not in the npm package, and
 * asking for it in vain prints errors of its own.
 */
export async function cudaProblem(folder = providerFolder()): Promise<string | undefined> {
  const file = join(folder, PROVIDER);
  if (!existsSync(file)) return `${PROVIDER} is not installed`;
  const needed = await librariesOf(file);
  const missing = needed.flatMap(({ name, isFound }) => (isFound ? [] : [name]));
  if (missing.length === 0 && !hasDriver()) missing.push('libcuda.so.1');
  if (missing.length === 0) return undefined;
  const version = cudaOf(needed);
  const pairing = version === undefined ? '' : `; the provider here is for CUDA ${version}`;
  return `${wordMissing(missing)}${pairing}`;
}
