/** Chromium reaches the verdicts that Node.js reaches. */
import { expect } from 'vitest';
import { writeEvidence } from '../../../src/attest/evidence.ts';
import { itInChromium, runInChromium } from '../../support/chromium.ts';
import { evidenceOf, genuine } from '../genuine.ts';
import { run } from '../in-browser.ts';

itInChromium('machines of all vendors are verified as in Node.js', async () => {
  const documents = genuine.flatMap(({ file, at }) => {
    const text = writeEvidence(evidenceOf(file));
    return [[text, at] as const, [text, 0] as const];
  });
  const entry = new URL('../in-browser.ts', import.meta.url);
  const verdicts = await runInChromium<typeof documents, ReturnType<typeof run>>(entry, documents);
  expect(verdicts).toEqual(await run(documents));
});
