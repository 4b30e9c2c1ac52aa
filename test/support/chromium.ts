/** Runs a function in headless Chromium, so that tests can compare its result with that of Node.js. */
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { bundleForBrowser } from './bundle.ts';
import { itWith, type Missing } from './needs.ts';

/** Where Debian puts it. */
const PROGRAM = '/usr/bin/chromium';
const missing: Missing = existsSync(PROGRAM)
  ? undefined
  : `${PROGRAM} is not installed; that takes: apt-get install --no-install-recommends chromium`;
/** Address of the empty test page; on localhost a page may use everything that secure pages may. */
const PAGE = 'http://localhost/';

/** Declares a test that needs Chromium; without it, the test is skipped and its name says how to install it. */
export function itInChromium(name: string, test: () => Promise<void>, timeout?: number): void {
  itWith(missing)(name, test, timeout === undefined ? {} : { timeout });
}

/**
 * Bundles a module for the browser and calls its exported `run` there. Input and output are copied: JSON, typed arrays and
 * numbers of every kind arrive as they were. The page reaches no network.
 */
export async function runInChromium<Input, Output>(
  entryFile: URL,
  input: Input,
): Promise<Awaited<Output>> {
  const script = await bundleForBrowser(entryFile);
  const browser = await chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    await page.route('**/*', (route) =>
      route.request().url() === PAGE
        ? route.fulfill({ contentType: 'text/html', body: '<!doctype html>' })
        : route.abort(),
    );
    await page.goto(PAGE);
    await page.addScriptTag({ content: script });
    // what a bundle leaves behind has no type; `run` is what the entry exports
    return await page.evaluate(
      (given: unknown) => Reflect.get(globalThis, 'entry').run(given),
      input,
    );
  } finally {
    await browser.close();
  }
}
