import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { schnorr } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { loadVerify, verifyInJavaScript, verifySignature } from '../../relay/signature.ts';
import { itWith } from '../support/needs.ts';
import bip340 from '../vectors/bip340.json' with { type: 'json' };
import crypto from '../vectors/crypto.json' with { type: 'json' };

const bytes = (hex: string) => Buffer.from(hex, 'hex');

const load = createRequire(import.meta.url);
/** Verifies with WebAssembly, as on a machine for which there is no compiled code. */
const withoutCompiled = loadVerify((name) => load(name.replace('secp256k1/bindings.js', 'none')));
const ways = [
  ['the fastest', verifySignature],
  ['WebAssembly', withoutCompiled],
  ['JavaScript', verifyInJavaScript],
] as const;

const missing = existsSync(new URL('../../node_modules/secp256k1', import.meta.url))
  ? undefined
  : 'the optional package is not here: npm install --no-save secp256k1@5.0.2';

itWith(missing)('a signature is verified by compiled code where it is present', async () => {
  const named: string[] = [];
  const verify = loadVerify((name) => {
    named.push(name);
    if (name.startsWith('tiny')) return { verifySchnorr: () => false };
    return load(name);
  });
  expect(named).toEqual(['tiny-secp256k1', 'secp256k1/bindings.js']);
  const digest = new Uint8Array(32);
  expect(verify(schnorr.sign(digest, secret), digest, pubkey)).toBe(true);
});

test('each library that loads is used', () => {
  expect(withoutCompiled).not.toBe(verifyInJavaScript);
});

test.each(ways)('%s: agrees with the vectors of BIP-340 and of the reference', (_, verify) => {
  for (const { pk, msg, sig, result } of crypto.verify) {
    if (msg.length !== 64 || pk.length !== 64 || sig.length !== 128) continue;
    expect(verify(bytes(sig), bytes(msg), bytes(pk)), sig).toBe(result ?? false);
  }
  for (const { publicKey, message, signature, result } of bip340.vectors)
    if (message.length === 64)
      expect(verify(bytes(signature), bytes(message), bytes(publicKey))).toBe(result);
});

const secret = new Uint8Array(32).fill(7);
const pubkey = schnorr.getPublicKey(secret);

test('all give the same verdict on good, bent and invented signatures', () => {
  const flip = fc.tuple(fc.constantFrom('none', 'sig', 'digest', 'pubkey'), fc.nat(255));
  const digests = fc.uint8Array({ minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(digests, flip, (digest, [what, bit]) => {
      const parts = { sig: schnorr.sign(digest, secret), digest, pubkey: Uint8Array.from(pubkey) };
      if (what !== 'none') {
        const part = parts[what as keyof typeof parts];
        part[(bit >> 3) % part.length]! ^= 1 << (bit & 7);
      }
      for (const [, verify] of ways)
        expect(verify(parts.sig, parts.digest, parts.pubkey)).toBe(what === 'none');
    }),
    { numRuns: 60 },
  );
  for (const fill of [0, 255]) {
    const [sig, key] = [Buffer.alloc(64, fill), Buffer.alloc(32, fill)];
    for (const [, verify] of ways) {
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

/** A signature whose point has an odd y-coordinate: (s, R) with R = sG - eP of the wrong parity. */
test('a point of the right x-coordinate and the wrong parity is no signature', () => {
  const { Point } = schnorr;
  const { taggedHash, pointToBytes } = schnorr.utils;
  for (let k = 1n; ; k++) {
    const point = Point.BASE.multiply(k);
    if (point.toAffine().y % 2n === 0n) continue;
    const [x, digest] = [pointToBytes(point), new Uint8Array(32)];
    const scalar = Point.Fn.fromBytes(secret);
    const isOdd = Point.BASE.multiply(scalar).toAffine().y % 2n === 1n;
    const e = Point.Fn.create(
      BigInt(
        `0x${Buffer.from(taggedHash('BIP0340/challenge', x, pubkey, digest)).toString('hex')}`,
      ),
    );
    const s = Point.Fn.create(k + e * (isOdd ? -scalar : scalar));
    const sig = Buffer.concat([x, Point.Fn.toBytes(s)]);
    for (const [, verify] of ways) expect(verify(sig, digest, pubkey)).toBe(false);
    return;
  }
});
