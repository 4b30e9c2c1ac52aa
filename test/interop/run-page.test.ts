/** The run page in Chromium over relays of other projects: it opens a finished run and proves it, as over our relay. */
import { afterAll, beforeAll, describe } from 'vitest';
import { generateRun } from '../support/certified-run.ts';
import { itWith } from '../support/needs.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { expectProof, hasChromium, openPageBench, type PageBench } from '../support/run-page.ts';
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
      const shown = await bench.open(`#run=${made.run}&relay=${url}`);
      await expectProof(shown, made);
      await shown.page.close();
    } finally {
      await close();
    }
  });
});
