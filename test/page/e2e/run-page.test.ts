import { readFile } from 'node:fs/promises';
import { formatArchive } from 'nostrain/certified';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { RoundPicture, RunPicture } from '../../../src/dashboard/run-picture.ts';
import { generateRun, signerOf } from '../../support/certified-run.ts';
import { itInChromium } from '../../support/chromium.ts';
import { hasChromium, openPageBench, type PageBench } from '../../support/run-page.ts';

const made = generateRun();
const archive = formatArchive({ events: made.events, beacons: [] });
/** The signature of one contribution is another. */
const altered = formatArchive({
  events: made.events.map((event, i) =>
    i === made.events.findLastIndex(({ kind }) => kind === 7810)
      ? { ...event, sig: made.events[0]!.sig }
      : event,
  ),
  beacons: [],
});

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>"\'`\u202e';
const KEY = signerOf(1).publicKey;

const hostileRound: RoundPicture = {
  ...{ round: 0, result: 'final', time: 1_790_000_000, outcome: HOSTILE, proposer: HOSTILE },
  ...{ attempt: 1, view: 1, roster: [KEY, HOSTILE], committee: [KEY], quorum: 1, signers: [KEY] },
  accepted: [{ worker: KEY, late: false }],
  rejected: [{ worker: HOSTILE, reason: HOSTILE }],
  sent: [],
  ...{ joined: [HOSTILE], left: [HOSTILE], faults: [{ worker: HOSTILE, kind: HOSTILE }] },
  ...{ forks: [HOSTILE], modelRoot: HOSTILE, ledgerRoot: HOSTILE, sample: HOSTILE },
  problem: HOSTILE,
  ...{ trainingLoss: 2, sharedLoss: 3 },
};

/** What a page would be given if every parser before it failed. */
const hostile: RunPicture = {
  ...{ run: HOSTILE, name: HOSTILE, model: HOSTILE, tier: HOSTILE, planned: 2, innerSteps: 1 },
  ...{ seats: 1, hasText: true, lossUnit: 'nats per token', reports: true },
  ...{ events: 1, isCaughtUp: true },
  rounds: [hostileRound, { ...hostileRound, round: 1 }],
  open: {
    ...{ round: 2, since: 1, attempt: 1, view: 1, roster: [HOSTILE], committee: [HOSTILE] },
    ...{ quorum: 1, sent: [], proposed: [], prepared: [], committed: [], viewChanges: [] },
    ...{ missing: [HOSTILE], lacks: HOSTILE },
  },
  workers: [
    {
      ...{ worker: HOSTILE, inRoster: true, hasSeat: true, isFaulted: false, joined: 0 },
      principal: HOSTILE,
      ...{ lastSign: 1, isAway: false, round: 0, counted: 1, sent: 1, bytes: 1, device: HOSTILE },
    },
  ],
  relays: [
    {
      ...{ relay: HOSTILE, state: HOSTILE, events: 1, refused: 1, bytesIn: 1, bytesOut: 1 },
      error: HOSTILE,
    },
  ],
  refused: [{ at: 1, reason: HOSTILE, detail: HOSTILE, relay: HOSTILE }],
};

let bench: PageBench;
beforeAll(async () => {
  if (!hasChromium) return;
  const beside = { 'events.jsonl': archive, 'altered.jsonl': altered };
  bench = await openPageBench({ ...beside, 'hostile.json': JSON.stringify(hostile) });
});
afterAll(() => bench?.close());

const AXE = new URL('../../../node_modules/axe-core/axe.min.js', import.meta.url);

interface AxeResults {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly unknown[] }[];
}

/** Returns the accessibility rules that the page breaks, with the elements. */
async function violationsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(await readFile(AXE, 'utf8'));
  const { violations } = await page.evaluate<AxeResults>('axe.run(document)');
  return violations.map(({ id, nodes }) => `${id}: ${JSON.stringify(nodes).slice(0, 500)}`);
}

describe('the run page', () => {
  itInChromium(
    'breaks no rule of axe, on phones and desks, light and dark, proved or not',
    async () => {
      for (const width of [390, 1280]) {
        for (const scheme of ['light', 'dark'] as const) {
          const { page } = await bench.open('#events=events.jsonl', width, scheme);
          await page.waitForSelector('#slider');
          expect(await violationsOf(page)).toEqual([]);
          await page.locator('#round tbody button').first().click();
          await page.waitForSelector('#round .why');
          await page.click('#verify');
          await page.waitForSelector('.verdict');
          expect(await violationsOf(page)).toEqual([]);
          await page.close();
        }
      }
    },
  );

  itInChromium('shows the proof before all else', async () => {
    const { page } = await bench.open('#events=events.jsonl', 390);
    await page.waitForSelector('#slider');
    expect(await page.locator('#run section').first().textContent()).toContain('Proof');
    await page.close();
  });

  itInChromium(
    'travels through the rounds by keyboard, and says why work did not count',
    async () => {
      const { page, trouble } = await bench.open('#events=events.jsonl');
      await page.waitForSelector('#slider');
      await page.focus('#slider');
      await page.keyboard.press('Home');
      await page.keyboard.press('ArrowRight');
      expect(await page.textContent('#round-name')).toBe('round 2 of 8');
      expect(await page.getAttribute('#slider', 'aria-valuetext')).toBe('round 2 of 8');
      const row = page.locator('#round tbody tr', { hasText: 'not counted' });
      expect(await row.count()).toBe(1);
      await row.getByRole('button').focus();
      await page.keyboard.press('Enter');
      await page.waitForSelector('#round .why');
      // it came a round later, and was counted then
      expect(await page.textContent('#round .why')).toContain('Counted late');
      await page.focus('#slider');
      await page.keyboard.press('End');
      expect(await page.textContent('#round-name')).toContain('the newest');
      expect(trouble).toEqual([]);
      await page.close();
    },
  );

  itInChromium('names the round from which on an altered archive is wrong', async () => {
    expect(altered).not.toBe(archive);
    const { page } = await bench.open('#events=altered.jsonl');
    await page.waitForSelector('#numbers .value');
    await page.click('#verify');
    await page.waitForSelector('.verdict');
    expect(await page.getAttribute('.verdict', 'class')).toContain('bad');
    await page.close();
  });

  itInChromium(
    'T-23: shows whatever a relay or a worker says as text, and runs none of it',
    async () => {
      for (const width of [360, 1280]) {
        const { page, trouble } = await bench.open('#local=hostile.json', width);
        await page.waitForSelector('#numbers .value');
        await page.locator('#round tbody button').first().click();
        expect(await page.textContent('#title')).toContain('<img src=x onerror=alert(1)>');
        expect(await page.textContent('#round pre')).toContain('<script>alert(2)</script>');
        for (const tag of [
          'img',
          'script:not([src="./page.js"])',
          'iframe',
          '[onerror]',
          '[style]',
        ]) {
          expect(await page.locator(`body ${tag}`).count(), tag).toBe(0);
        }
        expect(await page.textContent('body')).not.toContain('\u202e');
        expect(trouble).toEqual([]);
        await page.close();
      }
    },
  );

  itInChromium(
    'asks no relay of a private network on the word of a link, and none that is no relay',
    async () => {
      const { page } = await bench.open('#run=nonsense&relay=javascript:alert(1)');
      await page.waitForSelector('#problem .bad');
      expect(await page.textContent('#problem')).toMatch(/relay|ws/);
      await page.close();
    },
  );

  itInChromium('fits phones, tablets and desks, light and dark', async () => {
    for (const width of [360, 800, 1280]) {
      for (const scheme of ['light', 'dark'] as const) {
        const { page } = await bench.open('#events=events.jsonl', width, scheme);
        await page.waitForSelector('#numbers .value');
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        expect(wide).toBeLessThanOrEqual(width);
        await page.close();
      }
    }
  });
});
