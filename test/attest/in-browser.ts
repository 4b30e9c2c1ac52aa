/** Verifies evidence documents; the test runs it in Chromium. */
import { readEvidence } from '../../src/attest/evidence.ts';
import { verifyEvidence } from '../../src/attest/vendors.ts';

export const run = (documents: readonly (readonly [text: string, at: number])[]) =>
  Promise.all(
    documents.map(async ([text, at]) => {
      const read = readEvidence(text);
      return read.ok ? await verifyEvidence(read.value, at) : read;
    }),
  );
