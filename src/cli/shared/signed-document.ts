/** `--sign`: signs documents of commands as events of application data (NIP-78, kind 30078). */
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import type { SignedEvent, Signer } from '../../network/event.ts';
import { unixSeconds } from '../../node/checkpoint/directory.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { type FlagValues, text, toggle } from '../../terminal/flag-table.ts';
import { writeNote } from '../../terminal/output.ts';

const APPLICATION_DATA = 30_078;

export const keyFlags = {
  keyFile: text('<file>', 'secret key to sign with (default: in your data folder)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users of this machine can see it'),
};

export const signingFlags = {
  sign: toggle('sign the result as an event (kind 30078); a later one replaces it'),
  ...keyFlags,
};

export type SigningFlags = FlagValues<typeof signingFlags>;

/** Returns a signed event with the canonical JSON of the value; undefined without `--sign`. */
export async function signedDocument(
  flags: SigningFlags,
  name: string,
  value: object,
): Promise<SignedEvent | undefined> {
  if (flags.sign !== true) return undefined;
  return signDocument(await homeSigner(flags, writeNote), name, value);
}

/** Returns an event (kind 30078) with the canonical JSON of the value; a later one of this name replaces it. */
export const signDocument = (signer: Signer, name: string, value: object): SignedEvent =>
  signer.sign({
    kind: APPLICATION_DATA,
    created_at: unixSeconds(),
    tags: [['d', name]],
    content: canonicalJson(value as Json),
  });
