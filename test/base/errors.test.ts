import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ConfigError, escapeJson, safe, safeJson, safeLine } from '../../src/base/errors.ts';

/** Everything a terminal obeys: C0, DEL, C1, and what turns text around. */
const COMMANDS = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const text = fc.string({
  unit: fc.oneof(
    fc.integer({ min: 0, max: 0xff }).map((code) => String.fromCharCode(code)),
    fc.constantFrom('\u061c', '\u200f', '\u202a', '\u202e', '\u2066', '\u2069', '\u2028', 'é', '…'),
  ),
});

it('nothing that a terminal obeys is left, newlines and tabs stay', () => {
  expect(safe('a\u001b[2J\n\tb\u0007\u009b31m\u202ec\u2066d\r')).toBe('a·[2J\n\tb··31m·c·d·');
  expect(safeLine('a\nb\tc\u001b')).toBe('a b c·');
  fc.assert(fc.property(text, (each) => !COMMANDS.test(safe(each))));
  fc.assert(fc.property(text, (each) => !/\p{Cc}/u.test(safeLine(each))));
});

it('letters, signs and emoji of any language are as they were', () => {
  for (const each of ['żółć', 'שלום', 'سلام', '日本語', '👩‍🚀', '·…─│✓', 'नमस्ते']) {
    expect(safe(each)).toBe(each);
  }
});

it('JSON keeps its value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), text, (value, odd) => {
      const both = { value, [odd]: odd };
      expect(JSON.parse(safeJson(both, 2))).toEqual(JSON.parse(JSON.stringify(both)));
      expect(safeJson(both)).not.toMatch(COMMANDS);
    }),
  );
  expect(escapeJson('"\u009b"')).toBe('"\\u009b"');
});

it('an error that quotes somebody is harmless', () => {
  const { message, hint } = new ConfigError('a/b', 'it says \u001b]0;x\u0007', { hint: '\u202e' });
  expect([message, hint]).toEqual(['it says ·]0;x·', '·']);
});
