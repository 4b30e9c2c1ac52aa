/** What bytes are hashed and statements verified with, so that a platform can bring faster ones than pure JavaScript. */
import type { EventCrypto, Sha256 } from '../network/event-crypto.ts';

export interface Hashing {
  /** Default pure JavaScript. */
  readonly sha256?: Sha256 | undefined;
  /** Default pure JavaScript. */
  readonly crypto?: EventCrypto | undefined;
}
