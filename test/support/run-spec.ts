/** A whole run spec to change in tests: two founders and a linear model. */

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

/** The document of a spec with parts replaced, objects member by member; nothing is checked. */
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

/** The same, read. */
export const sampleSpec = (change: Untyped = {}): RunSpec => readSpec(sampleDocument(change));
