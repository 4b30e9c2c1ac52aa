/** A tab and a process fine-tune a published model together, from the first screen to the text box. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex, toHex } from 'nostrain/base';
import { readTab, servePage } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { type BrowserContext, chromium } from 'playwright-core';
import { expect } from 'vitest';
import { itInChromium } from '../../support/chromium.ts';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

const ROUNDS = 20;
const FOUNDER = ['--sec-key', toHex(new Uint8Array(32).fill(1))];
const hashOf = (file: string) => sha256Hex(readFileSync(file));

/** Answers a path with other bytes of the same length, until `restore` is called. */
async function spoil(context: BrowserContext, path: string, { length }: Uint8Array) {
  await context.route(`**/${path}`, (route) => route.fulfill({ body: Buffer.alloc(length) }));
  return { restore: () => context.unroute(`**/${path}`) };
}

itInChromium(
  'N-26: a tab fine-tunes a published model with a process: one button, a wrong source, a reload, one root in 20 rounds',
  async () => {
    const home = temporaryFolder();
    const base = await writeTinyLlama(join(home, 'tiny'));
    const corpus = join(home, 'text.txt');
    writeFileSync(corpus, 'To be, or not to be: that is the question. '.repeat(200));
    const relay = await createRelay();
    const names = ['config.json', 'tokenizer.json', 'model.safetensors'];
    const files = names.map((name) => join(base, name));
    const server = await servePage(
      await readTab(
        new Map([[hashOf(corpus), corpus]]),
        new Map(files.map((file) => [hashOf(file), file])),
      ),
      { host: '127.0.0.1', port: 0, isolated: true },
    );
    const made = await runProgram([
      ...['run', 'create', '--relay', relay.url, '-o', join(home, 'run.json'), '--json'],
      ...['--base', base, '--corpus', corpus, '--rank', '4', '--context', '32'],
      ...['--batch-size', '2', '--rounds', `${ROUNDS}`, '--inner-steps', '2'],
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
      const over = { hasText: 'the run is over' };
      await page.locator('#status', over).waitFor({ timeout: 200_000 });
      expect(asked.filter((url) => url.endsWith(weights))).toEqual([]);
      expect(await founder.exit).toBe(0);
      const roots = founder.events.flatMap((event) =>
        event.type === 'round' ? [event.certified!.root.slice(0, 16)] : [],
      );
      expect(roots).toHaveLength(ROUNDS);
      const lines = await page.locator('#log li').allTextContents();
      const seen = lines.flatMap((line) => /^(\d+)\. round:.* root (\w+)/.exec(line) ?? []);
      for (let i = 0; i < seen.length; i += 3) expect(seen[i + 2]).toBe(roots[+seen[i + 1]! - 1]);
      expect(seen.length).toBeGreaterThan(3 * (ROUNDS / 2));
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
