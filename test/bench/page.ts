/**
 * What the run page costs: its size, the time to the first number, and a replay in Chromium beside one in Node, on the same archive.
 * `npm run bench:page -- run.jsonl [--picture docs/assets/run-page.png]`
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readArchive, replayRun } from 'nostrain/certified';
import { specsOf } from 'nostrain/certified/parts';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { readPage, servePage } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { bundlePage } from '../../bundle.ts';
import { publishRaw } from '../support/publish-raw.ts';

const [file, flag, picture] = process.argv.slice(2);
if (file === undefined) throw new Error('name an archive: npm run bench:page -- run.jsonl');
const say = (line: string): void => void process.stdout.write(`${line}\n`);

const folder = mkdtempSync(join(tmpdir(), 'nostrain-page-'));
await bundlePage(folder);
let whole = 0;
for (const name of readdirSync(folder)) {
  const size = gzipSync(readFileSync(join(folder, name)), { level: 9 }).length;
  whole += size;
  say(`${name}: ${size} bytes gzip`);
}
say(`page: ${whole} bytes gzip`);

const archive = await readArchive(readFileSync(file, 'utf8').split('\n'));
const [run] = [...specsOf(archive.events).keys()];
say(`${archive.events.length} events`);
for (const [name, fast] of [
  ['Node, compiled signatures and hashes', { crypto: nativeCrypto, sha256: nativeSha256 }],
  ['Node, pure JavaScript', {}],
] as const) {
  const from = performance.now();
  const { ok, rounds } = await replayRun(archive, fast);
  say(`${name}: ${rounds} rounds in ${((performance.now() - from) / 1000).toFixed(2)} s, ok ${ok}`);
}

const relay = await createRelay();
await publishRaw(relay.url, archive.events);
const server = await servePage(await readPage(folder), { host: '127.0.0.1', port: 0 });
const address = `${server.url}#run=${run}&relay=${relay.url}`;
const profile = mkdtempSync(join(tmpdir(), 'nostrain-profile-'));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox'],
  viewport: { width: 1200, height: 1000 },
});
await timeLoad(context, 'cold').then((page) => page.close());
const page = await timeLoad(context, 'warm');
await page.click('#verify');
await page.locator('.verdict').waitFor({ timeout: 600_000 });
const told = (await page.textContent('#verification')) ?? '';
say(
  `Chromium: ${/It took ([\d.]+) seconds/.exec(told)?.[1]} s, ${await page.textContent('.verdict')}`,
);
if (flag === '--picture' && picture !== undefined) {
  await page.locator('#title').scrollIntoViewIfNeeded();
  await page.screenshot({ path: picture });
  say(`written to ${picture}`);
}
await context.close();
await server.close();
await relay.close();

/** From the start of the navigation to the first number of the run. */
async function timeLoad(browser: BrowserContext, name: string): Promise<Page> {
  const opened = await browser.newPage();
  const from = performance.now();
  await opened.goto(address);
  await opened
    .locator('#numbers .value', { hasText: /^[1-9]\d* of/ })
    .waitFor({ timeout: 120_000 });
  say(`${name} load to the first number: ${((performance.now() - from) / 1000).toFixed(2)} s`);
  return opened;
}
