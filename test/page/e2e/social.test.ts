/** The run page shows what people post about a run as text, checks zap splits, and posts a note by the browser's signer. */
import { mkdtempSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { createRelay } from 'nostrain/relay';
import { describe, expect } from 'vitest';
import { addressOfRun } from '../../../src/social/announce.ts';
import { startBlossomServer } from '../../support/blossom-server.ts';
import { generateRun, signerOf } from '../../support/certified-run.ts';
import { itInChromium } from '../../support/chromium.ts';
import { runCommand } from '../../support/command-line.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { openPageBench } from '../../support/run-page.ts';

const PLAYED = 8;
const made = generateRun(Array.from({ length: PLAYED }, () => ({})));
const address = addressOfRun(made.spec.author, made.run);
const AXE = new URL('../../../node_modules/axe-core/axe.min.js', import.meta.url);
const now = Math.floor(Date.now() / 1000);
const HOSTILE = '<img src=x onerror=alert(1)> \u202etrap';
const comment = signerOf(9).sign({
  kind: 1111,
  created_at: now,
  content: HOSTILE,
  tags: [
    ['A', address],
    ['K', '37810'],
    ['a', address],
    ['k', '37810'],
  ],
});
const zapNote = (number: number, weights: Readonly<Record<number, number>>) =>
  signerOf(number).sign({
    kind: 1,
    created_at: now,
    content: HOSTILE,
    tags: [
      ['a', address],
      ...Object.entries(weights).map(([of, weight]) => {
        return ['zap', signerOf(Number(of)).publicKey, '', String(weight)];
      }),
    ],
  });

const profileOf = (number: number) =>
  signerOf(number).sign({
    kind: 0,
    created_at: now,
    tags: [],
    content: JSON.stringify({ name: `n${number}`, lud16: `n${number}@example.org` }),
  });

describe('what people post about a run', () => {
  itInChromium(
    'N-63, N-64: a published page splits zaps, which the page and a replay find right',
    async () => {
      const [relay, blossom] = [await createRelay(), await startBlossomServer()];
      const bench = await openPageBench();
      await publishRaw(relay.url, [...made.events, profileOf(1), profileOf(2)]);
      const reading = ['--relay', relay.url, '--allow-private-relays'];
      const published = await runCommand(
        ...['page', made.run, '--relay', relay.url, '--publish', blossom.url, '--json'],
        ...['--sec-key', toHex(new Uint8Array(32).fill(21))],
      );
      expect(published.exitCode, published.stderr).toBe(0);
      expect(published.stderr.match(/left out, without a Lightning address/g)).toHaveLength(2);
      const { event } = JSON.parse(published.stdout);
      expect(event.tags.filter(([name]: string[]) => name === 'zap')).toEqual(
        [1, 2]
          .map((number) => ['zap', signerOf(number).publicKey, relay.url, `${PLAYED}`])
          .sort((a, b) => (a[1]! < b[1]! ? -1 : 1)),
      );
      const note = join(mkdtempSync(join(tmpdir(), 'nostrain-test-')), 'site.json');
      await writeFile(note, published.stdout);
      const replayed = await runCommand('replay', '--run', made.run, ...reading, '--note', note);
      expect(replayed.stdout, replayed.stderr).toContain('zap weights: right');
      const { page } = await bench.open(`#run=${made.run}&relay=${relay.url}`);
      await page.locator('#split', { hasText: 'its zap weights are right' }).waitFor();
      await Promise.all([bench.close(), relay.close(), blossom.close()]);
    },
    90_000,
  );

  itInChromium(
    'N-62, N-63: comments are text, zap splits are checked, and a note is signed by the browser',
    async () => {
      const [relay, bench] = [await createRelay(), await openPageBench()];
      await publishRaw(relay.url, [
        ...made.events,
        comment,
        zapNote(10, { 1: 8, 2: 8, 3: 8, 4: 8 }),
        zapNote(11, { 1: 800 }),
      ]);
      const { page, trouble } = await bench.open(`#run=${made.run}&relay=${relay.url}`);
      await page.locator('#comments', { hasText: '<img src=x' }).waitFor();
      await page.locator('#split', { hasText: 'its zap weights are right' }).waitFor();
      const split = await page.textContent('#split');
      expect(split).toContain('WRONG');
      expect(split).toContain('has weight 800, not 8');
      expect(await page.locator('#social img').count()).toBe(0);
      expect(await page.textContent('#social')).not.toContain('\u202e');
      await page.evaluate(await readFile(AXE, 'utf8'));
      const { violations } = await page.evaluate<{ violations: readonly object[] }>(
        'axe.run(document)',
      );
      expect(violations).toEqual([]);
      // a signer of the browser (NIP-07), whose key is here
      await page.exposeFunction('signHere', (draft: never) => signerOf(12).sign(draft));
      await page.evaluate(
        'globalThis.nostr = { signEvent: (draft) => globalThis.signHere(draft) }',
      );
      await publishRaw(relay.url, [zapNote(9, { 1: 8 })]);
      await page.click('#announce');
      await page.locator('#posted', { hasText: relay.url }).waitFor();
      expect(trouble).toEqual([]);
      await bench.close();
      await relay.close();
    },
    90_000,
  );
});
