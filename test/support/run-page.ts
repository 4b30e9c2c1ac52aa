/** The run page in a real Chromium, served from its bundle; files beside it are what a test says. */
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { utf8 } from 'nostrain/base';
import { type PageServer, readPage, servePage } from 'nostrain/node/parts';
import { type Browser, chromium, type Page } from 'playwright-core';
import { bundlePage } from '../../bundle.ts';

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
