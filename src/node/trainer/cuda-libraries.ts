/** Which shared libraries the CUDA part of onnxruntime lacks on this machine, and where each of them comes from. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { requireEngine } from '../training-engine.ts';

const run = promisify(execFile);
const PATIENCE_MS = 10_000;

/** By the beginning of the name of the file. */
const PARTS: readonly (readonly [start: string, part: string])[] = [
  ['libcudnn', 'cuDNN'],
  ['libcudart', 'CUDA runtime'],
  ['libcublas', 'cuBLAS, of CUDA'],
  ['libcufft', 'cuFFT, of CUDA'],
  ['libcurand', 'cuRAND, of CUDA'],
  ['libnvrtc', 'NVRTC, of CUDA'],
  ['libnvJitLink', 'nvJitLink, of CUDA'],
  ['libonnxruntime_providers', 'onnxruntime, the file beside the provider'],
  ['libcuda.', 'NVIDIA driver'],
];

/** What the loader of this machine does not find for this file; nothing where there is no loader to ask. */
export async function missingLibraries(file: string): Promise<readonly string[]> {
  const asked = run('ldd', [file], { timeout: PATIENCE_MS, env: { ...process.env, LC_ALL: 'C' } });
  const said = await asked.catch(() => ({ stdout: '' }));
  return [...said.stdout.matchAll(/^\s*(\S+) => not found$/gm)].map(([, name]) => name!);
}

/** `libcublasLt.so.13 (cuBLAS, of CUDA 13) is missing`. */
export function wordMissing(libraries: readonly string[]): string {
  const words = libraries.map((name) => {
    const part = PARTS.find(([start]) => name.startsWith(start))?.[1];
    const version = /\.so\.(\d+)/.exec(name)?.[1];
    const isVersioned = version !== undefined && part !== 'NVIDIA driver';
    return part === undefined ? name : `${name} (${part}${isVersioned ? ` ${version}` : ''})`;
  });
  return `${words.join(', ')} ${words.length === 1 ? 'is' : 'are'} missing`;
}

/** Whether the kernel has a driver of an NVIDIA card, here or below this Linux on Windows. */
const hasDriver = (): boolean =>
  existsSync('/proc/driver/nvidia/version') || existsSync('/dev/dxg');

/** How to get all of it. */
export const CUDA_HINT =
  "pip install 'onnxruntime-gpu[cuda,cudnn]==1.30.0' brings the provider and, for CUDA 13, all but the driver: " +
  'docs/devices.md says where to put them; or choose the cpu device';

/**
 * What CUDA lacks here, if anything is known of it before it is tried. Its part of onnxruntime is not in the npm package, and
 * asking for it in vain prints errors of its own.
 */
export async function cudaProblem(): Promise<string | undefined> {
  const name = 'libonnxruntime_providers_cuda.so';
  const folder = join(dirname(requireEngine()), '../bin/napi-v6', process.platform, process.arch);
  const file = join(folder, name);
  if (!existsSync(file)) return `${name} is not installed`;
  const missing = await missingLibraries(file);
  if (missing.length > 0) return wordMissing(missing);
  return hasDriver() ? undefined : wordMissing(['libcuda.so.1']);
}
