/** A GPU in software, for tests of WebGPU: SwiftShader, which Debian's Chromium brings with a loader of Vulkan. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Missing } from '../needs.ts';

const FOLDER = '/usr/lib/chromium';
const DRIVER = join(FOLDER, 'vk_swiftshader_icd.json');

/** Why it cannot be used here. */
export const swiftShaderMissing: Missing =
  process.platform === 'linux' && process.arch === 'x64' && existsSync(DRIVER)
    ? undefined
    : `there is no ${DRIVER}; that takes: apt-get install --no-install-recommends chromium`;

/** The environment in which a process finds it, as its only GPU. */
export const swiftShader = (): NodeJS.ProcessEnv => ({
  VK_ICD_FILENAMES: DRIVER,
  LD_LIBRARY_PATH: FOLDER,
  XDG_RUNTIME_DIR: mkdtempSync(join(tmpdir(), 'nostrain-test-')),
});

const run = promisify(execFile);

/** Runs a module of this folder there, which prints its answer to `ask` as JSON. A driver may end its process. */
export async function askOnGpu<Answer>(file: string, ask: unknown): Promise<Answer> {
  const entry = fileURLToPath(new URL(`./${file}`, import.meta.url));
  const node = ['--import', 'tsx', '--conditions=nostrain:source', entry, JSON.stringify(ask)];
  const env = { ...process.env, ...swiftShader() };
  const { stdout } = await run(process.execPath, node, { env, maxBuffer: 2 ** 26 });
  return JSON.parse(stdout) as Answer;
}
