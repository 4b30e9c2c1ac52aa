/** The fastest hashing and signatures that Node.js offers. */
import type { EventCrypto } from '../network/event-crypto.ts';
import { nativeSchnorr } from './native-schnorr.ts';
import { nativeSha256 } from './native-sha256.ts';

export const nativeCrypto: EventCrypto = { sha256: nativeSha256, schnorr: nativeSchnorr };
