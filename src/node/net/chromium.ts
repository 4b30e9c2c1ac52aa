/** A headless Chromium of this machine for demos and tests: it opens one page and ends when it is told to. Nothing depends on it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import process from 'node:process';

/** As distributions and vendors call it. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];
const MAC = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
/** A WebGPU device computed by the CPU, where there is no GPU: slow, and enough to show that it works. */
const SOFTWARE_GPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

/** The program, or undefined where there is none. */
export function findChromium(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const programs = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...programs, MAC].find((program) => existsSync(program));
}

export interface OpenedPage {
  /** Ends the browser; resolves when its process is gone. */
  close(): Promise<void>;
}

/** Opens a page in a browser of its own that keeps what it keeps in that folder. */
export async function openPage(
  program: string,
  url: string,
  { folder, softwareGpu }: { readonly folder: string; readonly softwareGpu: boolean },
): Promise<OpenedPage> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // its sandbox cannot be made by root; the page comes from this machine
  const isRoot = process.getuid?.() === 0;
  const flags = [
    '--headless=new',
    `--user-data-dir=${folder}`,
    '--no-first-run',
    '--disable-sync',
    '--no-default-browser-check',
    '--disable-component-update',
    '--disable-background-networking',
    ...(isRoot ? ['--no-sandbox'] : []),
    ...(softwareGpu ? SOFTWARE_GPU : []),
  ];
  const child = spawn(program, [...flags, url], { stdio: 'ignore' });
  const ended = exitOf(child);
  return {
    close: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

const exitOf = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
