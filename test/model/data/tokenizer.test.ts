import fc from 'fast-check';
import { utf8 } from 'nostrain/base';
import { tokenizers } from 'nostrain/model';
import { describe, expect, it } from 'vitest';

const { chars, bytes } = tokenizers;

describe('chars', () => {
  it('numbers the newline 0 and then ASCII from space to }', () => {
    expect(chars.vocabulary).toBe(95);
    expect([...chars.encode('\n !}').tokens]).toEqual([0, 1, 2, 94]);
  });

  it('gives every token back as the character it came from', () => {
    const all = Uint8Array.from({ length: 95 }, (_, i) => i);
    expect(chars.encode(chars.decode(all))).toEqual({ tokens: all, replaced: 0 });
  });

  it('turns each other character into one space and counts it', () => {
    const { tokens, replaced } = chars.encode('a~b\té\u{1f600}z\r\n');
    expect(chars.decode(tokens)).toBe('a b   z \n');
    expect(replaced).toBe(5);
  });

  it('reads bytes as UTF-8', () => {
    const text = 'née ~ 東京\n';
    expect(chars.encode(utf8(text))).toEqual(chars.encode(text));
  });
});

describe('bytes', () => {
  it('is the identity on any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const { tokens, replaced } = bytes.encode(text);
        expect(replaced).toBe(0);
        expect(bytes.decode(tokens)).toBe(text);
      }),
    );
  });
});

it.each(Object.entries(tokenizers))('%s refuses to decode a token it does not have', (name, it) => {
  expect(it.name).toBe(name);
  expect(() => it.decode([it.vocabulary])).toThrow(RangeError);
  expect(() => it.decode([-1])).toThrow(RangeError);
});
