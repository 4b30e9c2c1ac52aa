/** Tabs that train on files of the person: a CSV or a folder of pictures of their own, and what is refused of them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encode } from 'fast-png';
import { toHex } from 'nostrain/base';
import { syntheticSeries, syntheticShapes } from 'nostrain/model';
import { readTab, servePage } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { chromium } from 'playwright-core';
import { expect } from 'vitest';
import { itInChromium } from '../../support/chromium.ts';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';

const home = temporaryFolder();
const FOUNDER = ['--sec-key', toHex(new Uint8Array(32).fill(1))];
const SMALL = [
  ...[
    '--set',
    'width=16',
    '--set',
    'layers=1',
    '--set',
    'heads=2',
    '--set',
    'ffn=32',
    '--rounds',
    '5',
  ],
  ...['--inner-steps', '10', '--batch-size', '8', '--set', 'joinsPerRound=4'],
];

/** Steps of a series as CSV. */
function csv(name: string, from: number, change = (text: string) => text): string {
  const { channels, names, values } = syntheticSeries(5);
  const rows = Array.from({ length: 200 }, (_, i) =>
    [i, ...values.subarray((from + i) * channels, (from + i + 1) * channels)].join(','),
  );
  const file = join(home, name);
  writeFileSync(file, change([['time', ...names].join(','), ...rows].join('\n')));
  return file;
}

/** Some of the shapes, as a folder of PNG files for each class. */
function folder(name: string, rest: number, change = (file: Uint8Array) => file): string {
  const { classes, bytes, labels } = syntheticShapes(5, 12);
  for (let i = 0; i < 48; i++) {
    if (i % 3 !== rest) continue;
    const place = join(home, name, classes[labels[i]!]!);
    mkdirSync(place, { recursive: true });
    const data = bytes.slice(i * 144, (i + 1) * 144);
    const file = encode({ width: 12, height: 12, channels: 1, data });
    writeFileSync(join(place, `${i}.png`), change(file));
  }
  return join(home, name);
}

const withSide = (file: Uint8Array) => {
  // a header that says 100,000 pixels a side; its check sum is wrong then, which is found first
  const changed = file.slice();
  new DataView(changed.buffer).setUint32(16, 100_000);
  return changed;
};

const played = [
  {
    model: 'forecaster',
    sizes: ['--context', '32', '--set', 'horizon=8'],
    held: csv('held.csv', 0),
    own: csv('own.csv', 200),
    input: '#file',
    mine: csv('mine.csv', 400),
    refused: [
      [csv('hole.csv', 400, (text) => text.replace(/^(7),[^,]+/m, '$1,')), 'has an empty cell'],
      [csv('other.csv', 400, (text) => text.replace('time', 'when')), 'has no time column'],
    ],
  },
  {
    model: 'vit',
    sizes: ['--set', 'pixels=12', '--set', 'patch=3'],
    held: folder('held', 0),
    own: folder('own', 1),
    input: '#folder',
    mine: folder('mine', 2),
    refused: [
      [folder('cut', 2, (file) => file.subarray(0, file.length - 20)), 'the file is truncated'],
      [folder('wide', 2, withSide), 'cannot be decoded'],
      [join(folder('deep', 2), '..', 'deep', 'circle'), 'has 0 classes'],
    ],
  },
] as const;

for (const { model, sizes, held, own, input, mine, refused } of played) {
  itInChromium(
    `a tab trains a ${model} on what its person chooses, and asks again for what does not do`,
    async () => {
      const relay = await createRelay();
      const made = await runProgram([
        ...['run', 'create', '--relay', relay.url, '-o', join(home, `${model}.run.json`), '--json'],
        ...['--model', model, '--evaluation', held, ...sizes, ...SMALL, ...FOUNDER],
        ...['--set', 'admission.kind=open'],
      ]);
      const { naddr } = JSON.parse(made.stdout);
      const founder = startProgram([
        ...['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson', ...FOUNDER],
        ...['--dir', join(home, model), '--corpus', own, '--set', 'waitFor=2'],
        ...['--heartbeat-interval', '5', '--threads', '1', '--device', 'cpu'],
      ]);
      const server = await servePage(await readTab(new Map()), {
        ...{ host: '127.0.0.1', port: 0, isolated: true },
      });
      const browser = await chromium.launch({
        executablePath: '/usr/bin/chromium',
        args: ['--no-sandbox'],
      });
      try {
        const page = await browser.newPage();
        await page.goto(`${server.url}tab.html#${naddr}&device=wasm&threads=1`);
        await page
          .locator('#status', { hasText: 'each worker of this run trains on its own data' })
          .waitFor();
        for (const [path, words] of refused) {
          await page.setInputFiles(input, path);
          await page.locator('#status', { hasText: words }).waitFor();
          expect(await page.isVisible(input)).toBe(true);
        }
        await page.setInputFiles(input, mine);
        await page.locator('#worker', { hasText: /[0-9a-f]{64}/ }).waitFor();
        const over = { hasText: 'the run is over' };
        await page.locator('#status', over).waitFor({ timeout: 200_000 });
        expect(await founder.exit).toBe(0);
        const roots = founder.events.flatMap((event) =>
          event.type === 'round' ? [event.certified?.root] : [],
        );
        expect(await page.textContent('#status')).toContain(roots.at(-1));
        // what did is kept: nobody is asked again
        await page.reload();
        await page.locator('#status', over).waitFor({ timeout: 120_000 });
      } finally {
        founder.child.kill('SIGKILL');
        await browser.close();
        await server.close();
        await relay.close();
      }
    },
    300_000,
  );
}
