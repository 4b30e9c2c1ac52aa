import fc from 'fast-check';
import { concatBytes } from 'nostrain/base';
import { expect, it } from 'vitest';
import { hashTails, sha256 } from '../../src/base/hash.ts';

const words = (bytes: Uint8Array): Uint32Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i));
};
const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });

it('hashes every ending behind its beginning as SHA-256 does', () => {
  fc.assert(
    fc.property(bytes(64), fc.array(bytes(32), { maxLength: 9 }), (prefix, tails) => {
      const expected = tails.map((tail) => words(sha256(concatBytes(prefix, tail))));
      expect([...hashTails(prefix, words(concatBytes(...tails)))]).toEqual(
        expected.flatMap((each) => [...each]),
      );
    }),
  );
});

it('refuses a beginning that is no block, and half an ending', () => {
  expect(() => hashTails(new Uint8Array(63), new Uint32Array(8))).toThrow(RangeError);
  expect(() => hashTails(new Uint8Array(64), new Uint32Array(9))).toThrow(RangeError);
});
