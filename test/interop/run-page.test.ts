/** The run page in Chromium over relays of other projects: it opens a finished run and proves it, as over our relay. */
import { replayRun } from 'nostrain/certified';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { generateRun } from '../support/certified-run.ts';
import { itWith } from '../support/needs.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { hasChromium, openPageBench, type PageBench } from '../support/run-page.ts';
import { thirdParties } from './third-parties.ts';

let bench: PageBench;
beforeAll(async () => {
  if (hasChromium) bench = await openPageBench();
});
afterAll(() => bench?.close());

describe.each(thirdParties)('the run page over $name $version', (relay) => {
  const missing = hasChromium ? undefined : 'there is no Chromium';
  const notInstalled = `not installed; that takes: ${relay.install}`;
  itWith(relay.isInstalled() ? missing : notInstalled)('shows a run and proves it', async () => {
    const made = generateRun();
    const { url, close } = await relay.start();
    try {
      await publishRaw(url, made.events);
      const { page, trouble } = await bench.open(`#run=${made.run}&relay=${url}`);
      await page.locator('#status', { hasText: 'is decided' }).waitFor();
      expect(await page.textContent('#numbers')).toContain(`${made.rounds.length} of 8`);
      await page.click('#verify');
      await page.waitForSelector('.verdict');
      const report = await replayRun({ events: made.events, beacons: [] });
      expect(await page.textContent('.verdict')).toContain(`all ${made.rounds.length} rounds`);
      expect(await page.textContent('#run-root')).toBe(report.runRoot);
      expect(await page.textContent('#model-root')).toBe(report.modelRoot);
      expect(await page.textContent('#ledger-root')).toBe(report.ledgerRoot);
      expect(await page.textContent('#verification')).toContain('equivocation');
      expect(trouble).toEqual([]);
      await page.close();
    } finally {
      await close();
    }
  });
});
