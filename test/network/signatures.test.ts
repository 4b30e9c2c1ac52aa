/** Both implementations of signatures against the vectors of BIP-340, and against each other. */
import { schnorr } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { fromHex, toHex } from 'nostrain/base';
import { describe, expect, test } from 'vitest';
import { pureSchnorr } from '../../src/network/event-crypto.ts';
import { nativeSchnorr } from '../../src/node/native/event-crypto.ts';
import bip340 from '../vectors/bip340.json' with { type: 'json' };

const implementations = [
  ['@noble/curves', pureSchnorr],
  ['compiled', nativeSchnorr],
] as const;
const bytes = (hex: string) => fromHex(hex)!;

describe.each(implementations)('%s', (_, { sign, verify }) => {
  test.each(bip340.vectors)('vector $index: verification, $comment', (v) => {
    // 15 to 18 sign messages of other lengths, which no event has
    const isOurs = v.message.length === 64;
    expect(isOurs).toBe(v.index < 15);
    expect(verify(bytes(v.signature), bytes(v.message), bytes(v.publicKey))).toBe(
      v.result && isOurs,
    );
  });

  test('vector 0: signing, the only one for 32 bytes with a key and no randomness', () => {
    const isMade = ({ secretKey, auxRand, message }: (typeof bip340.vectors)[number]) =>
      secretKey !== null && /^0+$/.test(auxRand!) && message.length === 64;
    const made = bip340.vectors.filter(isMade);
    expect(made.map(({ index }) => index)).toEqual([0]);
    for (const { secretKey, message, signature } of made) {
      expect(toHex(sign(bytes(message), bytes(secretKey!)))).toBe(signature);
    }
  });

  test('what has another length is no signature', () => {
    const [v] = bip340.vectors;
    const [sig, message, key] = [bytes(v!.signature), bytes(v!.message), bytes(v!.publicKey)];
    expect(verify(sig, message, key)).toBe(true);
    expect(verify(sig.subarray(1), message, key)).toBe(false);
    expect(verify(sig, message.subarray(1), key)).toBe(false);
    expect(verify(sig, message, Uint8Array.of(2, ...key))).toBe(false);
    expect(verify(new Uint8Array(), new Uint8Array(), new Uint8Array())).toBe(false);
  });

  test('an invalid key cannot sign', () => {
    expect(() => sign(new Uint8Array(32), new Uint8Array(32))).toThrow();
    expect(() => sign(new Uint8Array(32), new Uint8Array(32).fill(255))).toThrow();
  });
});

const array32 = fc.uint8Array({ minLength: 32, maxLength: 32 });
const secret = array32.filter((key) => key[0]! < 255 && key.some((byte) => byte > 0));

test('both sign alike, and agree on every signature with a bit flipped', () => {
  const bit = fc.integer({ min: 0, max: 1023 });
  fc.assert(
    fc.property(secret, array32, fc.option(bit), (key, message, flip) => {
      const signature = pureSchnorr.sign(message, key);
      expect(nativeSchnorr.sign(message, key)).toEqual(signature);
      const parts = [signature, message, schnorr.getPublicKey(key)] as const;
      if (flip !== null) {
        const all = Uint8Array.from(parts.flatMap((part) => [...part]));
        all[flip >> 3]! ^= 1 << (flip & 7);
        parts[0].set(all.subarray(0, 64));
        parts[1].set(all.subarray(64, 96));
        parts[2].set(all.subarray(96));
      }
      const verdicts = [pureSchnorr, nativeSchnorr].map(({ verify }) => verify(...parts));
      expect(verdicts).toEqual([flip === null, flip === null]);
    }),
    { numRuns: 60 },
  );
});

test('both reject bytes that were not signed', () => {
  const signature = fc.uint8Array({ minLength: 64, maxLength: 64 });
  fc.assert(
    fc.property(signature, array32, array32, (sig, message, key) => {
      const verdicts = [pureSchnorr, nativeSchnorr].map(({ verify }) => verify(sig, message, key));
      expect(verdicts).toEqual([false, false]);
    }),
    { numRuns: 100 },
  );
});
