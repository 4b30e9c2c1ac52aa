/** `--sign`: documents of commands as events of application data (NIP-78, kind 30078). */
import { systemClock } from '../../base/async.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import type { SignedEvent } from '../../network/event.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { type FlagValues, text, toggle } from '../../terminal/flag-table.ts';
import { writeNote } from '../../terminal/output.ts';

const APPLICATION_DATA = 30_078;

/** Whose key signs. */
export const keyFlags = {
  keyFile: text('<file>', 'secret key to sign with (default: in your data folder)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users of this machine see it'),
};

/** `--sign` and whose key. */
export const signingFlags = {
  sign: toggle('sign it as an event (kind 30078), which a later one replaces'),
  ...keyFlags,
};

export type SigningFlags = FlagValues<typeof signingFlags>;

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
