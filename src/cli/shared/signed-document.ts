/** `--sign`: documents of commands as events of application data (NIP-78, kind 30078). */

import type { Command } from 'commander';
import { systemClock } from '../../base/async.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import type { SignedEvent } from '../../network/event.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { writeNote } from '../../terminal/output.ts';

const APPLICATION_DATA = 30_078;

export interface SigningFlags {
  readonly sign?: boolean;
  readonly keyFile?: string;
  readonly secKey?: string;
}

/** `--sign` and whose key. */
export const addSigningFlags = (command: Command): Command =>
  command
    .option('--sign', 'sign it as an event (kind 30078), which a later one replaces')
    .option('--key-file <file>', 'secret key to sign with (default: in your data folder)')
    .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it');

/** The event over the canonical JSON of a value, where it is to be signed. */
export async function signedDocument(
  flags: SigningFlags,
  name: string,
  value: object,
): Promise<SignedEvent | undefined> {
  if (flags.sign !== true) return undefined;
  const signer = await homeSigner(flags, writeNote);
  return signer.sign({
    kind: APPLICATION_DATA,
    created_at: Math.floor(systemClock.now() / 1000),
    tags: [['d', name]],
    content: canonicalJson(value as Json),
  });
}
