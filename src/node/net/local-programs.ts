/** Finds and starts programs for demos and tests: headless Chromium, and anvil of Foundry as a local blockchain. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { ChainError } from '../../base/errors.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];
const MAC = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
/** Flags for a WebGPU device in software, for machines without a GPU: slow, but enough to show that it works. */
const SOFTWARE_GPU = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

export function findChromium(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const programs = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...programs, MAC].find((program) => existsSync(program));
}

export interface OpenedPage {
  /** Ends the browser; resolves when its process is gone. */
  close(): Promise<void>;
}

/** Opens a page in a new browser process that stores its profile in `folder`. */
export async function openPage(
  program: string,
  url: string,
  { folder, softwareGpu }: { readonly folder: string; readonly softwareGpu: boolean },
): Promise<OpenedPage> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // root cannot create its sandbox; the page comes from this machine
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

export interface LocalChain {
  readonly url: string;
  stop(): Promise<void>;
}

/** Milliseconds to wait until anvil listens. */
const READY_MS = 20_000;

/** Returns the path of anvil from npm's `@foundry-rs/anvil`; undefined if it is not installed for this platform. */
export function findAnvil(): string | undefined {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${arch}`;
  const program = process.platform === 'win32' ? 'anvil.exe' : 'anvil';
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/${program}`);
  } catch {
    return undefined;
  }
}

/** Starts anvil on a free port, with additional flags such as `--slots-in-an-epoch 1`. */
export async function startLocalChain(
  program: string,
  flags: readonly string[] = [],
): Promise<LocalChain> {
  const args = ['--host', '127.0.0.1', '--port', '0', ...flags];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = exitOf(child);
  try {
    const address = await listening(child);
    // later output is discarded, so that it does not fill the pipe
    child.stdout!.resume();
    return {
      url: `http://${address}`,
      async stop() {
        child.kill('SIGTERM');
        await ended;
      },
    };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}

async function listening(child: ChildProcess): Promise<string> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, READY_MS);
  try {
    for await (const line of createInterface({ input: child.stdout! })) {
      const address = /^Listening on (127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (address !== undefined) return address;
    }
  } finally {
    clearTimeout(timer);
  }
  const why = isLate ? 'did not start' : 'ended at once';
  throw new ChainError('chain/local', `the local chain ${why}`, {
    hint: 'it is anvil from @foundry-rs/anvil: try `npx anvil --version`',
  });
}
