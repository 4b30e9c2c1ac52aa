/** A relay under measurement: a process of its own that we start and end, or a URL somebody else runs. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'ws';

export interface Contender {
  readonly name: string;
  /** A `ws://` URL, or a command in which `{port}` and `{dir}` stand for a free port and an empty folder. */
  readonly how: string;
}

export interface Running {
  readonly url: string;
  /** Resident memory of the process and its children, in MiB; NaN for a relay that is not ours to look at. */
  memory(): number;
  close(): Promise<void>;
}

const START_MS = 30_000;

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts the relay afresh, its folder empty, and waits until it takes connections. */
export async function startContender({ name, how }: Contender): Promise<Running> {
  if (/^wss?:/.test(how)) return { url: how, memory: () => Number.NaN, close: async () => {} };
  const dir = await mkdtemp(join(tmpdir(), 'nostrain-bench-'));
  const port = await freePort();
  const words = how
    .split(' ')
    .map((w) => w.replaceAll('{port}', `${port}`).replaceAll('{dir}', dir));
  const child = spawn(words[0]!, words.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  const url = `ws://127.0.0.1:${port}`;
  for (const begin = performance.now(); !(await answers(url)); await sleep(50)) {
    if (child.exitCode !== null || performance.now() - begin > START_MS) {
      child.kill('SIGKILL');
      throw new Error(`${name} does not start: ${words.join(' ')}`);
    }
  }
  return {
    url,
    memory: () => residentMib(child.pid!),
    close: async () => {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
      await ended;
      clearTimeout(timer);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const answers = (url: string): Promise<boolean> =>
  new Promise((resolve) => {
    const ws = new WebSocket(url);
    ws.on('open', () => {
      ws.terminate();
      resolve(true);
    });
    ws.on('error', () => resolve(false));
  });

function residentMib(root: number): number {
  const table = execFileSync('ps', ['-eo', 'pid=,ppid=,rss='], { encoding: 'utf8' });
  const rows = table
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const family = new Set([root]);
  let kib = 0;
  // children have higher numbers than their parents but after a wrap, which a bench does not live to see
  for (const [pid = 0, parent = 0, rss = 0] of rows.sort((a, b) => a[0]! - b[0]!)) {
    if (!family.has(pid) && !family.has(parent)) continue;
    family.add(pid);
    kib += rss;
  }
  return kib / 1024;
}
