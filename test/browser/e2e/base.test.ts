/** A tab and a process fine-tune a published model together, from the first screen to the text box. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex, toHex } from 'nostrain/base';
import { readTab, servePage, toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { itInChromium } from '../../support/chromium.ts';
import { printed, runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

const ROUNDS = 20;
const FOUNDER = ['--sec-key', toHex(new Uint8Array(32).fill(1))];
const SIZES = ['--rank', '4', '--context', '32', '--batch-size', '2', '--inner-steps', '2'];
const OVER = { hasText: 'the run is over' };
const hashOf = (file: string) => sha256Hex(readFileSync(file));

/** Answers a path with other bytes of the same length, until `restore` is called. */
async function spoil(context: BrowserContext, path: string, { length }: Uint8Array) {
  await context.route(`**/${path}`, (route) => route.fulfill({ body: Buffer.alloc(length) }));
  return { restore: () => context.unroute(`**/${path}`) };
}

/** Writes a tiny base and a text, and starts a relay. */
async function prepare() {
  const home = temporaryFolder();
  const base = await writeTinyLlama(join(home, 'tiny'));
  const corpus = join(home, 'text.txt');
  writeFileSync(corpus, 'To be, or not to be: that is the question. '.repeat(200));
  const names = ['config.json', 'tokenizer.json', 'model.safetensors'];
  const files = names.map((name) => join(base, name));
  return { home, base, corpus, files, relay: await createRelay() };
}

/** Serves the page of a tab and these files by their hashes. */
const serveTab = async (texts: readonly string[] = [], bases: readonly string[] = []) => {
  const byHash = (files: readonly string[]) => new Map(files.map((file) => [hashOf(file), file]));
  const options = { host: '127.0.0.1', port: 0, isolated: true };
  return await servePage(await readTab(byHash(texts), byHash(bases)), options);
};

/** Returns the roots in the log of a tab, by the number of their round. */
async function rootsIn(page: Page): Promise<ReadonlyMap<number, string>> {
  const lines = await page.locator('#log li').allTextContents();
  return new Map(
    lines.flatMap((line) => {
      const [, round, root] = /^(\d+)\. round:.* root (\w+)/.exec(line) ?? [];
      return root === undefined ? [] : [[Number(round), root] as const];
    }),
  );
}

itInChromium(
  'N-26: a tab fine-tunes a published model with a process: one button, a wrong source, a reload, one root in 20 rounds',
  async () => {
    const { home, base, corpus, files, relay } = await prepare();
    const server = await serveTab([corpus], files);
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '-o', join(home, 'run.json'), '--json'],
      ...['--base', base, '--corpus', corpus, '--rounds', `${ROUNDS}`, ...SIZES],
      ...['--set', 'admission.kind=open', '--set', 'joinsPerRound=4', ...FOUNDER],
      ...['--tab', `${server.url}tab.html`],
    ]);
    const { naddr, tab } = JSON.parse(made.stdout);
    const founder = startProgram([
      ...['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson', ...FOUNDER],
      ...['--dir', join(home, 'founder'), '--corpus', corpus, '--base', base],
      ...['--set', 'waitFor=2', '--heartbeat-interval', '5', '--threads', '1', '--device', 'cpu'],
    ]);
    const browser = await chromium.launch({
      executablePath: '/usr/bin/chromium',
      args: ['--no-sandbox'],
    });
    try {
      const context = await browser.newContext();
      const page = await context.newPage();
      const asked: string[] = [];
      context.on('request', (request) => asked.push(request.url()));
      const weights = `base/${hashOf(files[2]!)}`;
      const { restore } = await spoil(context, weights, readFileSync(files[2]!));
      await page.goto(`${tab}&device=wasm&threads=2`);
      await page.locator('#promise', { hasText: /downloads 1 MB once: the model/ }).waitFor();
      expect(asked.filter((url) => url.includes('/base/'))).toEqual([]);
      await page.click('#begin');
      await page.locator('#status', { hasText: 'it serves another file' }).waitFor();
      await restore();
      await page.click('#begin');
      await page
        .locator('#round', { hasText: /\b(?:[3-9]|1\d) rounds are over/ })
        .waitFor({ timeout: 120_000 });
      asked.length = 0;
      await page.reload();
      await page.locator('#status', OVER).waitFor({ timeout: 200_000 });
      expect(asked.filter((url) => url.endsWith(weights))).toEqual([]);
      expect(await founder.exit).toBe(0);
      const roots = founder.events.flatMap((event) =>
        event.type === 'round' ? [event.certified!.root.slice(0, 16)] : [],
      );
      expect(roots).toHaveLength(ROUNDS);
      const seen = await rootsIn(page);
      for (const [round, root] of seen) expect(root).toBe(roots[round - 1]);
      expect(seen.size).toBeGreaterThan(ROUNDS / 2);
      await page.click('#write button');
      for (const id of ['#tuned', '#untuned']) {
        await page.locator(id, { hasText: /^Once upon a time./ }).waitFor({ timeout: 60_000 });
      }
    } finally {
      founder.child.kill('SIGKILL');
      await browser.close();
      await server.close();
      await relay.close();
    }
  },
  400_000,
);

/** Milliseconds for which the browser is stopped: the tab explains a pause of more than 30 s. */
const STOPPED_MS = 40_000;

itInChromium(
  'N-26: the link that host prints opens a tab on WebGPU, which gets all files from the relay and follows after a closed lid',
  async () => {
    const { base, corpus, relay } = await prepare();
    const server = await serveTab();
    const host = startProgram([
      ...['host', 'tune', '--open', '--people', '2', '--name', 'Anna', '--relay', relay.url],
      ...['--base', base, '--corpus', corpus, '--rounds', `${ROUNDS}`, ...SIZES, '--json'],
      ...['--tab', `${server.url}tab.html`],
    ]);
    const line = await printed(host, /(?<=nostrain join )naddr1\w+/);
    const friend = startProgram(['join', line, '--relay', relay.url, '--name', 'Bea', '--json']);
    const browser = await chromium.launchServer({
      executablePath: '/usr/bin/chromium',
      args: ['--no-sandbox', '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
    });
    try {
      const page = await (await chromium.connect(browser.wsEndpoint())).newPage();
      const link = await printed(host, /http:\S+tab\.html#naddr1\w+/);
      // two founders wait for each other: the run begins once the tab is open
      friend.child.kill('SIGSTOP');
      await page.goto(`${link}&device=webgpu`);
      await page.click('#begin');
      await page.locator('#device', { hasText: 'webgpu' }).waitFor({ timeout: 200_000 });
      friend.child.kill('SIGCONT');
      await page.locator('#log li', { hasText: 'trained in' }).nth(1).waitFor({ timeout: 60_000 });
      // the process group has all processes of the browser
      process.kill(-browser.process().pid!, 'SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, STOPPED_MS));
      process.kill(-browser.process().pid!, 'SIGCONT');
      await page
        .locator('#log li', { hasText: /suspended this tab for .*nothing is lost/ })
        .waitFor();
      await page.locator('#status', OVER).waitFor({ timeout: 200_000 });
      expect(await host.exit, host.output.stderr).toBe(0);
      const { agreed, rounds } = JSON.parse(host.output.stdout) as HostDocument;
      expect(agreed).toBe(true);
      const me = toNpub((await page.textContent('#worker'))!);
      const counted = rounds.filter((each) => each.counted.some(({ npub }) => npub === me));
      expect(counted.length).toBeGreaterThan(0);
      const seen = await rootsIn(page);
      for (const [at, root] of seen) expect(rounds[at - 1]!.root.slice(0, 16)).toBe(root);
      expect(seen.get(rounds.length)).toBeDefined();
    } finally {
      for (const { child } of [host, friend]) child.kill('SIGKILL');
      await browser.kill();
      await server.close();
      await relay.close();
    }
  },
  500_000,
);

interface HostDocument {
  readonly agreed: boolean;
  readonly rounds: readonly {
    readonly root: string;
    readonly counted: readonly { readonly npub: string }[];
  }[];
}
