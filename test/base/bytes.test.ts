import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  concatBytes,
  fromBase64,
  fromHex,
  isHex32,
  toBase64,
  toHex,
  utf8,
} from '../../src/base/bytes.ts';

const anyBytes = fc.uint8Array({ maxLength: 200 });

describe('hex', () => {
  test('comes back from its own text', () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        expect(fromHex(toHex(bytes))).toEqual(bytes);
      }),
    );
  });

  test.each(['0', 'A0', '0g', ' 00', '0x00', '00\n'])('refuses %j', (text) => {
    expect(fromHex(text)).toBeUndefined();
  });

  test('32 bytes are 64 lowercase digits', () => {
    expect(isHex32('ab'.repeat(32))).toBe(true);
    expect(isHex32('AB'.repeat(32))).toBe(false);
    expect(isHex32('ab'.repeat(31))).toBe(false);
  });
});

describe('base64', () => {
  // RFC 4648 section 10
  test.each([
    ['', ''],
    ['f', 'Zg=='],
    ['fo', 'Zm8='],
    ['foo', 'Zm9v'],
    ['foob', 'Zm9vYg=='],
    ['fooba', 'Zm9vYmE='],
    ['foobar', 'Zm9vYmFy'],
  ])('%j is %j', (text, encoded) => {
    expect(toBase64(utf8(text))).toBe(encoded);
    expect(fromBase64(encoded)).toEqual(utf8(text));
  });

  test('comes back from its own text, and is what Node makes', () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        const encoded = toBase64(bytes);
        expect(encoded).toBe(Buffer.from(bytes).toString('base64'));
        expect(fromBase64(encoded)).toEqual(bytes);
      }),
    );
  });

  test('one text per byte string: whatever is accepted is what the encoder makes', () => {
    const symbols = fc.string({
      unit: fc.constantFrom(...'ABZaz09+/=-_ \n'),
      maxLength: 12,
    });
    fc.assert(
      fc.property(symbols, (text) => {
        const bytes = fromBase64(text);
        if (bytes !== undefined) expect(toBase64(bytes)).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  test.each(['Zg=', 'Zg', 'Zh==', 'Zm9=', 'Zm-v', 'Zm_v', 'Zm9v\n', 'Z=9v', '====', 'é\u0000AA'])(
    'refuses %j',
    (text) => {
      expect(fromBase64(text)).toBeUndefined();
    },
  );
});

test('concatenates in order', () => {
  expect(concatBytes(utf8('a'), utf8(''), utf8('bc'))).toEqual(utf8('abc'));
});
