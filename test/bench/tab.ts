/**
 * What training in a tab costs: milliseconds per step on WebAssembly with one thread and with two, beside Node on the same machine and model, in turns, and
 * the memory of the page's process beside that of Node's.
 *
 *   npm run bench:tab -- [--steps 10] [--turns 2] [--threads 1 --threads 2]
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { utf8 } from 'nostrain/base';
import { createTrainer } from 'nostrain/node';
import { readPage, readTab, servePage } from 'nostrain/node/parts';
import { chromium } from 'playwright-core';
import { bundleScripts } from '../../bundle.ts';
import { batchTimed, modelTimed, type Timed, timeSteps } from './tab/steps.ts';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '10' },
    turns: { type: 'string', default: '2' },
    threads: { type: 'string', multiple: true, default: ['1', '2'] },
    one: { type: 'boolean', default: false },
  },
});
const [steps, turns] = [Number(values.steps), Number(values.turns)];
const say = (line: string): void => void process.stdout.write(`${line}\n`);

interface Measured extends Timed {
  /** The most that the process which computes had in memory. */
  readonly peakMb: number;
}

/** In a process of its own, so that its peak is its own. */
function inNode(threads: number): Measured {
  const flags = ['--one', '--steps', String(steps), '--threads', String(threads)];
  const node = ['--import', 'tsx', '--conditions=nostrain:source', fileURLToPath(import.meta.url)];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...node, ...flags], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Measured;
}

/** The scripts of a tab, and a page that is nothing else. */
async function filesOfBench() {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-bench-'));
  const scripts = {
    bench: './test/bench/tab/in-page.ts',
    'trainer-wasm': './src/browser/trainer-wasm.ts',
    'trainer-webgpu': './src/browser/trainer-webgpu.ts',
  };
  await bundleScripts(scripts, folder);
  const page = '<!doctype html><script type="module" src="bench.js"></script>';
  const files = new Map([...(await readTab(new Map())), ...(await readPage(folder))]);
  return files.set('bench.html', utf8(page));
}

/** In a browser of its own. */
async function inChromium(url: string, threads: number): Promise<Measured> {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  try {
    const page = await browser.newPage();
    await page.goto(`${url}bench.html`);
    await page.waitForFunction('globalThis.timeTab !== undefined');
    const timed = (await page.evaluate(
      `globalThis.timeTab({ steps: ${steps}, threads: ${threads} })`,
    )) as Timed;
    return { ...timed, peakMb: peakOfPages(process.pid) };
  } finally {
    await browser.close();
  }
}

const textOf = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

/** The largest peak among the processes that render pages and descend from this one (Linux), in MB. */
function peakOfPages(root: number): number {
  const ids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const parents = new Map(
    ids.map((id) => [
      Number(id),
      Number(/^PPid:\s+(\d+)/m.exec(textOf(`/proc/${id}/status`))?.[1]),
    ]),
  );
  const isOurs = (id: number | undefined): boolean =>
    id === root || (id !== undefined && id > 1 && isOurs(parents.get(id)));
  const pages = ids.filter(
    (id) => textOf(`/proc/${id}/cmdline`).includes('--type=renderer') && isOurs(Number(id)),
  );
  const peaks = pages.map((id) =>
    Number(/^VmHWM:\s+(\d+)/m.exec(textOf(`/proc/${id}/status`))?.[1]),
  );
  return Math.max(0, ...peaks) / 1024;
}

const median = (times: readonly number[]): number =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN;

async function compare(): Promise<void> {
  const { width, layers, context } = modelTimed;
  say(
    `char-gpt of width ${width}, ${layers} layers, ${batchTimed} windows of ${context}; ${steps} steps, ${turns} turns`,
  );
  const server = await servePage(await filesOfBench(), {
    ...{ host: '127.0.0.1', port: 0, isolated: true },
  });
  const runs = new Map<string, Measured[]>();
  try {
    for (let turn = 0; turn < turns; turn++) {
      for (const threads of values.threads.map(Number)) {
        const rows = { Node: inNode(threads), Chromium: await inChromium(server.url, threads) };
        for (const [where, run] of Object.entries(rows)) {
          const name = `${where}, ${run.threads} thread${run.threads === 1 ? '' : 's'}`;
          runs.set(name, [...(runs.get(name) ?? []), run]);
        }
      }
    }
  } finally {
    await server.close();
  }
  for (const [name, all] of runs) {
    const times = all.flatMap(({ msPerStep }) => msPerStep);
    const peak = Math.max(...all.map(({ peakMb }) => peakMb)).toFixed(0);
    const least = Math.min(...times).toFixed(0);
    const loss = all[0]!.loss.toFixed(4);
    say(
      `${name}: ${median(times).toFixed(0)} ms a step (fastest ${least}), peak ${peak} MB, loss ${loss}`,
    );
  }
}

if (values.one) {
  const timed = await timeSteps(createTrainer, { steps, threads: Number(values.threads[0]) });
  say(JSON.stringify({ ...timed, peakMb: process.resourceUsage().maxRSS / 1024 }));
} else await compare();
