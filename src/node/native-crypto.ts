/** The fastest hashing and signatures that Node.js offers. */
import type { EventCrypto } from '../network/event-crypto.ts';
import { nativeSchnorr } from './native-schnorr.ts';
import { nativeSha256Text } from './native-sha256.ts';

export const nativeCrypto: EventCrypto = { sha256Text: nativeSha256Text, schnorr: nativeSchnorr };
