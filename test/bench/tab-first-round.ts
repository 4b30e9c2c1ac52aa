/**
 * Time from the address of an open char-gpt run, pasted into a tab, to the first round that counts the tab's contribution: with an empty browser profile, then
 * with the same profile in a second run, whose files, model and compiled code the browser may have kept.
 *
 *   npm run bench:tab-first-round -- [--seconds 5] [--runs 2] [--threads 1]
 */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { sha256Hex, toHex } from 'nostrain/base';
import { readTab, servePage } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { type BrowserContext, chromium } from 'playwright-core';
import { writePlay } from '../../src/model/data/playwright.ts';
import { runProgram, startProgram } from '../support/processes.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    runs: { type: 'string', default: '2' },
    threads: { type: 'string', default: '1' },
  },
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const folder = mkdtempSync(join(tmpdir(), 'nostrain-bench-'));
const corpus = join(folder, 'play.txt');
writeFileSync(corpus, writePlay());
const FOUNDER = ['--sec-key', toHex(new Uint8Array(32).fill(1))];

/** Plays a run of one process until a tab that opens its address is counted; returns what the log of the tab says when. */
async function measure(context: BrowserContext, url: string, number: number): Promise<void> {
  const home = join(folder, `run-${number}`);
  mkdirSync(home);
  const relay = await createRelay();
  const made = await runProgram([
    ...['run', 'create', '--model', 'char-gpt', '--relay', relay.url, '--json', ...FOUNDER],
    // another name is another run: the profile keeps the state of the first one
    ...[
      '--name',
      `run ${number}`,
      '-o',
      join(home, 'run.json'),
      '--corpus',
      corpus,
      '--rounds',
      '1000',
    ],
    ...['--set', 'admission.kind=open', '--set', `innerSeconds=${values.seconds}`],
    ...['--set', 'data.shards=2'],
  ]);
  if (made.code !== 0) throw new Error(made.stderr);
  const { naddr } = JSON.parse(made.stdout);
  const founder = startProgram([
    ...['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson', ...FOUNDER],
    ...['--dir', join(home, 'founder'), '--corpus', corpus, '--threads', '1', '--device', 'cpu'],
    '--no-evaluate',
  ]);
  try {
    await founder.event((event) => event.type === 'round' && event.index >= 1);
    const page = await context.newPage();
    const startedMs = performance.now();
    const since = () => ((performance.now() - startedMs) / 1000).toFixed(1);
    await page.goto(`${url}tab.html#${naddr}&device=wasm&threads=${values.threads}`);
    const wait = async (id: string, hasText: RegExp, what: string) => {
      await page.locator(id, { hasText }).first().waitFor({ timeout: 300_000 });
      say(`run ${number}: ${what} after ${since()} s`);
    };
    await wait('#device', /thread/, 'the model is ready');
    await wait('#step', /step \d/, 'it trains');
    await wait('#log li', /trained in/, 'it has trained');
    await founder.event((event) => event.type === 'round' && event.accepted.length === 2);
    say(`run ${number}: an outcome counts it after ${since()} s`);
    await page.close();
  } finally {
    founder.child.kill('SIGKILL');
    await founder.exit;
    await relay.close();
  }
}

const files = await readTab(new Map([[sha256Hex(writePlay()), corpus]]));
const server = await servePage(files, { host: '127.0.0.1', port: 0, isolated: true });
const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  for (let number = 1; number <= Number(values.runs); number++) {
    await measure(context, server.url, number);
  }
} finally {
  await context.close();
  await server.close();
}
