/**
 * The record of a run of 500 rounds by 8 keys of a GPT with 10,704 parameters: made (drawn contributions, real events, all signed), kept as a folder,
 * and replayed from it in Node.js, and by the run page in Chromium where that is installed; seconds of wall time and of the processor.
 *   npm run record -- FOLDER [ROUNDS]
 * A folder that has the run already is only kept and replayed again. `nostrain checkpoint push FOLDER/chunks/run --to URL` offers it.
 */
import { existsSync, mkdtempSync } from 'node:fs';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatArchive, replayRun } from 'nostrain/certified';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { readPage, servePage } from 'nostrain/node/parts';
import { completeSettings, presets, sharedNames, writeSettings } from 'nostrain/run';
import { chromium } from 'playwright-core';
import { bundlePage } from '../../bundle.ts';
import {
  eventsIn,
  openRecord,
  readArchiveFile,
  writeRecord,
} from '../../src/cli/shared/archive-source.ts';
import { certifiedSpec, foundersOf, generateRun, type Round } from '../support/certified-run.ts';

const [folder = '/tmp/record', count = '500'] = process.argv.slice(2);
const KEYS = 8;
const PROGRAM = '/usr/bin/chromium';

async function timed<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  const [from, used] = [performance.now(), process.cpuUsage()];
  const result = await work();
  const { user, system } = process.cpuUsage(used);
  const seconds = [(performance.now() - from) / 1000, (user + system) / 1e6];
  const words = seconds.map((each) => each.toFixed(1)).join(' s, of the processor ');
  process.stdout.write(`${what}: ${words} s\n`);
  return result;
}

function makeRun(): string {
  const rounds = Number(count);
  const small = { tokens: 'bytes', width: 16, layers: 1, heads: 2, context: 16, ffn: 32 } as const;
  const asked = { ...small, model: 'gpt', relay: [], run: 'record', rounds } as const;
  const all = writeSettings(completeSettings(presets.gpt, asked));
  const isShared = ([name]: readonly [string, unknown]) =>
    sharedNames.some((each) => each === name);
  const shared = Object.fromEntries(Object.entries(all).filter(isShared));
  const spec = certifiedSpec({
    founders: foundersOf(KEYS),
    data: { kind: 'own' },
    limits: { payloadBytes: 200_000, weightCap: 25 * 32 },
    training: { ...shared, rounds },
  });
  const { events } = generateRun(new Array<Round>(rounds).fill({}), spec, [], undefined, 3);
  return formatArchive({ events, beacons: [] });
}

const options = { crypto: nativeCrypto, sha256: nativeSha256 };
await mkdir(folder, { recursive: true });
const file = eventsIn(folder);
let isSame = true;
if (!existsSync(file)) await timed('made', async () => writeFile(file, makeRun()));
const archive = await readArchiveFile(file);
const { size } = await stat(file);
process.stdout.write(`${archive.events.length} events, ${size} bytes\n`);
const keeping = { ...options, every: 100, chunkBytes: 2 ** 20 };
const { record } = await timed('kept', () => writeRecord(folder, archive, keeping));
const report = await timed('read and replayed', async () => {
  const kept = await openRecord(folder);
  return replayRun(await readArchiveFile(file), { ...options, states: kept?.states });
});
const full = report.lines.filter(({ checked }) => checked === 'full').length;
process.stdout.write(`${full} rounds in full, model ${report.modelRoot}, run ${report.runRoot}\n`);
isSame &&= record.modelRoot === report.modelRoot && record.runRoot === report.runRoot && report.ok;
if (existsSync(PROGRAM)) await replayInChromium();
else process.stdout.write(`${PROGRAM} is not installed: not replayed in a browser\n`);
process.stdout.write(`as recorded: ${isSame}\n`);
if (!isSame) process.exitCode = 1;

/** As somebody who opens the run page with this archive beside it and lets it prove the run. */
async function replayInChromium(): Promise<void> {
  const page = mkdtempSync(join(tmpdir(), 'nostrain-page-'));
  await bundlePage(page);
  const files = new Map(await readPage(page));
  files.set('run.jsonl', await readFile(file));
  const server = await servePage(files, { host: '127.0.0.1', port: 0 });
  const browser = await chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox'] });
  try {
    const tab = await browser.newPage();
    await timed('read and replayed in Chromium', async () => {
      await tab.goto(`${server.url}#events=run.jsonl&verify`);
      await tab.locator('.verdict').waitFor({ timeout: 3_600_000 });
    });
    const told = (await tab.textContent('#verification')) ?? '';
    const seconds = /It took ([\d.]+) seconds/.exec(told)?.[1];
    process.stdout.write(
      `${await tab.textContent('.verdict')}; the replay alone took ${seconds} s\n`,
    );
    isSame &&= told.includes(report.modelRoot) && told.includes(report.runRoot ?? 'none');
  } finally {
    await browser.close();
    await server.close();
  }
}
