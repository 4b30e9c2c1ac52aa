import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalize, canonicalJson, parseJson } from '../../src/base/canonical-json.ts';
import vectors from '../vectors/jcs.json' with { type: 'json' };

describe('RFC 8785', () => {
  test.each(vectors.numbers)('appendix B: $ieee is $json', ({ ieee, json }) => {
    const value = Buffer.from(ieee, 'hex').readDoubleBE();
    expect(canonicalJson(value)).toBe(json);
    expect(canonicalize(json)).toEqual({ ok: true, value: json });
  });

  test.each(vectors.texts)('$from', ({ input, output }) => {
    expect(canonicalize(input)).toEqual({ ok: true, value: output });
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('%d has no form', (value) => {
    expect(() => canonicalJson({ value })).toThrow(RangeError);
  });

  test('nor has a lone surrogate', () => {
    expect(() => canonicalJson('\ud800')).toThrow(RangeError);
    expect(() => canonicalJson({ '\udead': 1 })).toThrow(RangeError);
  });
});

test('what has no form is refused when it is read', () => {
  for (const text of [
    '{"g":1e400}',
    '[-1e400]',
    '["\\ud800"]',
    '{"\\udc00":1}',
    'NaN',
    '[1,]',
    '',
    '01',
    '['.repeat(101) + ']'.repeat(101),
    '['.repeat(100_000) + ']'.repeat(100_000),
  ]) {
    expect(canonicalize(text), text.slice(0, 20)).toMatchObject({
      ok: false,
      issue: { code: 'bad-json' },
    });
  }
  expect(canonicalize('['.repeat(100) + ']'.repeat(100)).ok).toBe(true);
});

test('any value comes back, whatever the spaces and the order', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value, null, 3);
      const parsed = parseJson(text);
      if (!parsed.ok) throw new Error(parsed.issue.message);
      const canonical = canonicalJson(parsed.value);
      expect(canonicalize(canonical)).toEqual({ ok: true, value: canonical });
      expect(JSON.parse(canonical)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});
