/** The run page in a real Chromium, served from its bundle; files beside it are what a test says. */
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { utf8 } from 'nostrain/base';
import { replayRun } from 'nostrain/certified';
import { type PageServer, readPage, servePage } from 'nostrain/node/parts';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { bundlePage } from '../../bundle.ts';
import type { GeneratedRun } from './certified-run.ts';

const PROGRAM = '/usr/bin/chromium';

export const hasChromium = existsSync(PROGRAM);

export interface ShownPage {
  readonly page: Page;
  /** Dialogs, errors and what the page's own rules refused. */
  readonly trouble: readonly string[];
}

export interface PageBench {
  /** Opens the page at this address after #, as wide as that. */
  open(address: string, width?: number, colorScheme?: 'light' | 'dark'): Promise<ShownPage>;
  close(): Promise<void>;
}

/** Expects the page to show this finished run, and to prove it with the roots of a replay. */
export async function expectProof(
  { page, trouble }: ShownPage,
  { events, rounds }: GeneratedRun,
): Promise<void> {
  await page.locator('#status', { hasText: 'is decided' }).waitFor();
  expect(await page.textContent('#numbers')).toContain(`${rounds.length} of 8`);
  await page.click('#verify');
  await page.waitForSelector('.verdict');
  const report = await replayRun({ events, beacons: [] });
  expect(await page.textContent('.verdict')).toContain(`all ${rounds.length} rounds`);
  expect(await page.textContent('#run-root')).toBe(report.runRoot);
  expect(await page.textContent('#model-root')).toBe(report.modelRoot);
  expect(await page.textContent('#ledger-root')).toBe(report.ledgerRoot);
  expect(await page.textContent('#verification')).toContain('equivocation');
  expect(trouble).toEqual([]);
}

/** Bundles the page once, serves it with these files beside it, and starts Chromium. */
export async function openPageBench(
  beside: Readonly<Record<string, string>> = {},
): Promise<PageBench> {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-page-'));
  await bundlePage(folder);
  const files = new Map(await readPage(folder));
  for (const [name, text] of Object.entries(beside)) files.set(name, utf8(text));
  const server: PageServer = await servePage(files, { host: '127.0.0.1', port: 0 });
  const browser: Browser = await chromium.launch({
    executablePath: PROGRAM,
    args: ['--no-sandbox'],
  });
  return {
    async open(address, width = 1280, colorScheme = 'light') {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
      const trouble: string[] = [];
      page.on('dialog', (dialog) => {
        trouble.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on('pageerror', (error) => trouble.push(`error: ${error.message}`));
      page.on('console', (message) => {
        if (message.type() === 'error') trouble.push(message.text());
      });
      await page.goto(`${server.url}${address}`);
      return { page, trouble };
    },
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
