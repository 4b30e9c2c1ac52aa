import { codecs } from 'nostrain/network';
import { expect, it } from 'vitest';
import { itInChromium, runInChromium } from '../../support/chromium.ts';
import type { PayloadVectors } from '../../support/payload-vectors.ts';
import { readVectors } from '../../support/vectors.ts';
import { type CodecReport, run } from '../codec/codec-report.ts';

const all = readVectors<PayloadVectors>('payload-codecs.json');
// the vectors also hold codecs that this program no longer has
const isPresent = ({ codec }: { readonly codec: string }) => codec in codecs;
const input = {
  vectors: { ...all, small: all.small.filter(isPresent), large: all.large.filter(isPresent) },
  fuzzed: 3000,
};
const entry = new URL('../codec/codec-report.ts', import.meta.url);

it('says of its vectors what they say', () => {
  const report = run({ ...input, fuzzed: 0 });
  for (const { codec, kept, size, payloadSha256 } of input.vectors.large) {
    expect(report[`vector ${codec} ${kept} of ${size}`]).toContain(payloadSha256);
  }
});

itInChromium('encodes and decodes to the same bytes in Chromium as in Node', async () => {
  const inBrowser = await runInChromium<typeof input, CodecReport>(entry, input);
  const here = run(input);
  expect(Object.keys(here).length).toBeGreaterThan(75);
  expect(inBrowser).toEqual(here);
});
