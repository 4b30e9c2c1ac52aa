/** `nostrain page` and its page in a real browser: it opens a run from a relay and proves it. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatArchive } from 'nostrain/certified';
import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { generateRun } from '../../support/certified-run.ts';
import { itInChromium } from '../../support/chromium.ts';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { expectProof, openPageBench } from '../../support/run-page.ts';

const made = generateRun();
const archive = formatArchive({ events: made.events, beacons: [] });

describe('nostrain page', () => {
  it('writes the page with an archive beside it, out of a file or a folder of one', async () => {
    const folder = temporaryFolder();
    await writeFile(join(folder, 'run.jsonl'), archive);
    for (const events of [folder, join(folder, 'run.jsonl')]) {
      const site = join(temporaryFolder(), 'site');
      const { stdout } = await runCommand('page', '--events', events, '--out', site, '--json');
      const told = JSON.parse(stdout);
      expect(told.url).toBe('index.html#events=events.jsonl');
      expect(told.files).toContain('job.js');
      expect(await readFile(join(site, 'events.jsonl'), 'utf8')).toBe(archive);
    }
  });
});

describe('the run page', () => {
  itInChromium('opens a run over a relay without any key, and proves it', async () => {
    const bench = await openPageBench();
    const relay = await createRelay();
    await publishRaw(relay.url, made.events);
    const shown = await bench.open(`#run=${made.run}&relay=${relay.url}`);
    const { page } = shown;
    await page.waitForSelector('#numbers .value');
    expect(await page.textContent('#title')).toBe('made up');
    await expectProof(shown, made);
    await bench.close();
    await relay.close();
  });
});
