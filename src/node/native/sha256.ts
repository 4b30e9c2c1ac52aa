/** SHA-256 by `node:crypto`, many times as fast as the JavaScript version on large events. */
import { createHash } from 'node:crypto';
import type { CreateSha256 } from '../../base/hash.ts';
import type { Sha256, Sha256Text } from '../../network/event-crypto.ts';

/** Creates an incremental SHA-256. */
export const createNativeSha256: CreateSha256 = () => createHash('sha256');

/** Returns the SHA-256 of bytes. */
export const nativeSha256: Sha256 = (bytes) =>
  new Uint8Array(createHash('sha256').update(bytes).digest());

export const nativeSha256Text: Sha256Text = (text) =>
  new Uint8Array(createHash('sha256').update(text, 'utf8').digest());
