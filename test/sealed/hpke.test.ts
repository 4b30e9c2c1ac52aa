import { fromHex, toHex, utf8 } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import { createSealKeys, openFor, sealKeyOf, sealTo } from '../../src/sealed/hpke.ts';
import { readVectors } from '../support/vectors.ts';

const vector = readVectors<Record<string, string>>('hpke.json');
const bytes = (name: string) => fromHex(vector[name]!)!;

it('opens the message of RFC 9180', async () => {
  const secretKey = vector.secretKey!;
  expect(sealKeyOf(secretKey)).toBe(vector.publicKey);
  const envelope = { encapsulated: bytes('encapsulated'), ciphertext: bytes('ciphertext') };
  const bound = { info: bytes('info'), aad: bytes('aad') };
  const message = await openFor({ secretKey }, envelope, bound);
  expect(toHex(message!)).toBe(vector.plaintext);
});

describe('T-14 an envelope', async () => {
  const keys = await createSealKeys();
  const bound = { info: utf8('info'), aad: utf8('aad') };
  const message = utf8('a key of thirty-two bytes, or not');
  const envelope = await sealTo(keys.publicKey, message, bound);

  it('opens with its key', async () => {
    expect(await openFor(keys, envelope, bound)).toEqual(message);
  });

  it('stays closed for another key, info or aad', async () => {
    expect(await openFor(await createSealKeys(), envelope, bound)).toBeUndefined();
    expect(await openFor(keys, envelope, { ...bound, info: utf8('other') })).toBeUndefined();
    expect(await openFor(keys, envelope, { ...bound, aad: utf8('other') })).toBeUndefined();
  });

  it('stays closed with any bit changed, and at any other length', async () => {
    for (const part of ['encapsulated', 'ciphertext'] as const) {
      // the highest bit of an X25519 key is ignored (RFC 7748), but HPKE binds all bytes of it
      for (let bit = 0; bit < 8 * envelope[part].length; bit += 7) {
        const changed = Uint8Array.from(envelope[part]);
        changed[bit >> 3]! ^= 1 << (bit & 7);
        expect(await openFor(keys, { ...envelope, [part]: changed }, bound)).toBeUndefined();
      }
      const cut = { ...envelope, [part]: envelope[part].subarray(1) };
      expect(await openFor(keys, cut, bound)).toBeUndefined();
    }
  });

  it('is not made for a key of another length', async () => {
    await expect(sealTo('00', message, bound)).rejects.toThrow('32 bytes');
  });
});
