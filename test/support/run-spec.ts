/** A complete run spec for tests to change: two founders and a linear model. */

import {
  completeDocument,
  presets,
  type RunSpec,
  readSpec,
  sharedNames,
  type Untyped,
  writeSettings,
} from 'nostrain/run';
import { signerOf } from './signers.ts';

const isShared = (name: string) => sharedNames.some((each) => each === name);

/** Returns the document of a spec with `change` merged into it, unchecked. */
export function sampleDocument(change: Untyped = {}): Untyped {
  const { training, ...rest } = change;
  const settings = writeSettings({ ...presets.linear, model: 'linear' });
  const shared = Object.fromEntries(Object.entries(settings).filter(([name]) => isShared(name)));
  const author = signerOf(1).publicKey;
  return completeDocument(
    { author, founders: [author, signerOf(2).publicKey], name: 'two friends', ...rest },
    {
      training: { ...shared, ...Object(training) },
      data: { kind: 'made', shards: 2 },
      timing: { graceMaxMs: 60_000 },
      limits: { payloadBytes: 1560, weightCap: 320 },
    },
  );
}

/** Returns the parsed spec of `sampleDocument(change)`. */
export const sampleSpec = (change: Untyped = {}): RunSpec => readSpec(sampleDocument(change));
