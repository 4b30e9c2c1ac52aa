/** SHA-256 and its labelled form, from which every seed and digest is derived. */
import { sha256 as nobleSha256 } from '@noble/hashes/sha2.js';
import { concatBytes, toHex, utf8 } from './bytes.ts';

export const sha256 = (bytes: Uint8Array): Uint8Array => nobleSha256(bytes);

export const sha256Hex = (bytes: Uint8Array): string => toHex(nobleSha256(bytes));

/** An incremental SHA-256 for data that never sits in one buffer. */
export type CreateSha256 = () => { update(bytes: Uint8Array): unknown; digest(): Uint8Array };

/** The implementation of @noble/hashes, which runs everywhere. */
export const createSha256: CreateSha256 = () => nobleSha256.create();

/** SHA-256 over length-prefixed UTF-8 fields after a label, so that no two field lists collide. */
export function hashFields(label: string, ...fields: readonly (string | number)[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const field of [label, ...fields]) {
    const bytes = utf8(String(field));
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, bytes.length, true);
    parts.push(length, bytes);
  }
  return sha256(concatBytes(...parts));
}
