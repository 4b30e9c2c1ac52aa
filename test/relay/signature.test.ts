import { randomBytes } from 'node:crypto';
import { schnorr } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadVerify, verifyInJavaScript, verifySignature } from '../../relay/signature.ts';
import crypto from '../vectors/crypto.json' with { type: 'json' };

const bytes = (hex: string) => Buffer.from(hex, 'hex');

test('the compiled check is the one in use', () => {
  expect(verifySignature).not.toBe(verifyInJavaScript);
});

test.each([
  ['compiled', verifySignature],
  ['in JavaScript', verifyInJavaScript],
])('%s: agrees with the vectors of BIP-340 and of the reference', (_, verify) => {
  for (const { pk, msg, sig, result } of crypto.verify) {
    if (msg.length !== 64 || pk.length !== 64 || sig.length !== 128) continue;
    expect(verify(bytes(sig), bytes(msg), bytes(pk)), sig).toBe(result ?? false);
  }
});

const secret = new Uint8Array(32).fill(7);
const pubkey = schnorr.getPublicKey(secret);

test('both give the same verdict on good, bent and invented signatures', () => {
  const flip = fc.tuple(fc.constantFrom('none', 'sig', 'digest', 'pubkey'), fc.nat(255));
  const digests = fc.uint8Array({ minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(digests, flip, (digest, [what, bit]) => {
      const parts = { sig: schnorr.sign(digest, secret), digest, pubkey: Uint8Array.from(pubkey) };
      if (what !== 'none') {
        const part = parts[what as keyof typeof parts];
        part[(bit >> 3) % part.length]! ^= 1 << (bit & 7);
      }
      const verdict = verifySignature(parts.sig, parts.digest, parts.pubkey);
      expect(verdict).toBe(what === 'none');
      expect(verifyInJavaScript(parts.sig, parts.digest, parts.pubkey)).toBe(verdict);
    }),
    { numRuns: 60 },
  );
  for (const fill of [0, 255]) {
    const [sig, key] = [Buffer.alloc(64, fill), Buffer.alloc(32, fill)];
    for (const verify of [verifySignature, verifyInJavaScript]) {
      expect(verify(sig, randomBytes(32), pubkey)).toBe(false);
      expect(verify(schnorr.sign(randomBytes(32), secret), randomBytes(32), key)).toBe(false);
    }
  }
});

test('where the compiled code does not load, JavaScript checks', () => {
  const broken = () => {
    throw new Error('no WebAssembly');
  };
  expect(loadVerify(broken)).toBe(verifyInJavaScript);
});
