import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import fc from 'fast-check';
import { fromHex, toHex } from 'nostrain/base';
import { evmAddress } from 'nostrain/chain';
import { expect, test } from 'vitest';

/** What docs/stake.md tells people to do: the same secret, or n - secret where its point has odd y. */
function evmSecret(secret: Uint8Array): Uint8Array {
  if (secp256k1.getPublicKey(secret)[0] === 2) return secret;
  const rest = secp256k1.Point.CURVE().n - BigInt(`0x${toHex(secret)}`);
  return fromHex(rest.toString(16).padStart(64, '0'))!;
}

// secrets and accounts that every EVM wallet agrees on: 1, 2, 3 and the first two of the mnemonic "test test ... junk"
test.each([
  ['01'.padStart(64, '0'), '7e5f4552091a69125d5dfcb7b8c2659029395bdf'],
  ['02'.padStart(64, '0'), '2b5ad5c4795c026514f8317c7a215e218dccd6cf'],
  ['03'.padStart(64, '0'), '6813eb9362372eef6200f3b1dbc3f819671cba69'],
  [
    'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
    'f39fd6e51aad88f6f4ce6ab8827279cfffb92266',
  ],
  [
    '59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
    '70997970c51812dc3a010c7d01b50e0d17dc79c8',
  ],
])('the account of secret %s', (secret, account) => {
  const bytes = fromHex(secret)!;
  const isEven = secp256k1.getPublicKey(bytes)[0] === 2;
  const address = evmAddress(toHex(schnorr.getPublicKey(bytes)))!;
  expect(toHex(address) === account).toBe(isEven);
  expect(toHex(evmSecret(bytes)) === secret).toBe(isEven);
});

test('the secret for the EVM has even y, the same Nostr key, and is its own', () => {
  const secrets = fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .filter((bytes) => secp256k1.utils.isValidSecretKey(bytes));
  let odd = 0;
  fc.assert(
    fc.property(secrets, (secret) => {
      const even = evmSecret(secret);
      if (even !== secret) odd++;
      expect(secp256k1.getPublicKey(even)[0]).toBe(2);
      expect(schnorr.getPublicKey(even)).toEqual(schnorr.getPublicKey(secret));
      expect(evmSecret(even)).toBe(even);
    }),
    { numRuns: 40 },
  );
  expect(odd).toBeGreaterThan(0);
});

test('half of all numbers are no key', () => {
  // x = 5 is on no point
  expect(evmAddress('05'.padStart(64, '0'))).toBeUndefined();
  expect(evmAddress('ff'.repeat(32))).toBeUndefined();
  expect(evmAddress('ab')).toBeUndefined();
});
