/** A relay nobody here wrote: installed by a script that pins its version, started on loopback with an empty store. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import type { Behavior } from '../contract/behavior.ts';
import type { StartedRelay } from '../contract/relay-under-test.ts';

/** A server nobody here wrote. */
export interface ThirdProgram {
  readonly name: string;
  readonly version: string;
  readonly language: string;
  /** The command that installs it. */
  readonly install: string;
  isInstalled(): boolean;
  start(): Promise<StartedRelay>;
}

export interface ThirdParty extends ThirdProgram {
  /** What it does in its own way, as it was measured. */
  readonly behavior: Behavior;
}

interface Recipe {
  /** The folder's name, here and under `.interop`. */
  readonly name: string;
  readonly version: string;
  readonly language: string;
  /** The file whose presence means that it is installed, below its folder. */
  readonly program: string;
  /** The command line, given the program, a free port and an empty folder; may write a configuration there. */
  command(program: string, port: number, folder: string): Promise<readonly [string, ...string[]]>;
  readonly behavior: Behavior;
}

const root = fileURLToPath(new URL('../../.interop/', import.meta.url));
const START_MS = 30_000;
const STOP_MS = 3000;

export const defineThirdParty = (recipe: Recipe): ThirdParty => ({
  ...defineProgram(recipe),
  behavior: recipe.behavior,
});

/** Defines a server that is more than a relay, or none. */
export function defineProgram(recipe: Omit<Recipe, 'behavior'>): ThirdProgram {
  const { name, version, language } = recipe;
  const program = join(root, name, recipe.program);
  return {
    name,
    version,
    language,
    install: `bash test/interop/${name}/install.sh`,
    isInstalled: () => existsSync(program),
    async start() {
      const folder = await mkdtemp(join(tmpdir(), 'nostrain-interop-'));
      const port = await freePort();
      const [command, ...args] = await recipe.command(program, port, folder);
      return startProcess(command, args, folder, port);
    },
  };
}

async function startProcess(
  command: string,
  args: readonly string[],
  folder: string,
  port: number,
): Promise<StartedRelay> {
  // a group of its own: some relays are several processes, and all must end
  const child = spawn(command, args, {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HOME: folder },
  });
  let words = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      words = (words + text).slice(-4000);
    });
  }
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const close = async () => {
    await stop(child, ended);
    await rm(folder, { recursive: true, force: true });
  };
  const url = `ws://127.0.0.1:${port}`;
  try {
    await reachable(url, child);
  } catch (cause) {
    await close();
    throw new Error(`${command} did not start: ${words}`, { cause });
  }
  return { url, close };
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  signalGroup(child, 'SIGTERM');
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(timer);
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // it has ended
  }
}

/** Resolves when the address answers. */
async function reachable(url: string, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + START_MS;
  while (!(await opens(url))) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    if (Date.now() > deadline) throw new Error(`nobody answers at ${url}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function opens(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url);
    const answered = () => {
      resolve(true);
      socket.terminate();
    };
    socket.on('error', () => resolve(false));
    socket.on('open', answered);
    socket.on('unexpected-response', answered); // of a server that speaks HTTP only
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
