/** Hashes computed in pieces equal those of other implementations over the whole. */
import { blake3 } from '@noble/hashes/blake3.js';
import { createSha256, sha256Hex, toHex, utf8 } from 'nostrain/base';
import { chunkTree } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { createBlake3, createDigester, RootHasher } from '../../../src/network/chunks/manifest.ts';
import { createNativeBlake3 } from '../../../src/node/checkpoint/chunk-work.ts';

const payload = Uint8Array.from({ length: 200_000 }, (_, i) => (i * 31 + (i >> 7)) & 255);

function* inPieces(length: number) {
  for (let at = 0; at < payload.length; at += length) yield payload.subarray(at, at + length);
}

describe('hashes', () => {
  it.each([createBlake3, createNativeBlake3])(
    'of nothing and of three letters are those of the papers',
    async (create) => {
      const hasher = await create();
      expect(hasher.digest()).toBe(
        'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262',
      );
      hasher.update(utf8('abc'));
      expect(hasher.digest()).toBe(
        '6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85',
      );
    },
  );

  it.each([1000, 1024, 45_056, 65_536, 200_000])('in pieces of %i bytes', async (length) => {
    const native = await createNativeBlake3();
    for (const piece of inPieces(length)) native.update(piece);
    expect(native.digest()).toBe(toHex(blake3(payload)));
    const digester = await createDigester(createSha256);
    const root = new RootHasher(createSha256);
    for (const piece of inPieces(length)) {
      digester.update(piece);
      root.update(piece);
    }
    const expected = { sha256: sha256Hex(payload), blake3: toHex(blake3(payload)) };
    expect(digester.digest()).toEqual(expected);
    expect(root.digest()).toBe(chunkTree(payload).root);
    digester.update(payload);
    expect(digester.digest()).toEqual(expected);
  });
});
