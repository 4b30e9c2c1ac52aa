/** SHA-256 by Node's own crypto: many times the speed of the pure one on large events. */
import { createHash } from 'node:crypto';
import type { Sha256 } from '../network/event-crypto.ts';

export const nativeSha256: Sha256 = (bytes) =>
  new Uint8Array(createHash('sha256').update(bytes).digest());
