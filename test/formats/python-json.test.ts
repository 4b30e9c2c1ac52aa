import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  canonicalize,
  canonicalJson,
  indentedJson,
  type PythonJson,
  parseJson,
  pythonFloat,
} from '../../src/formats/python-json.ts';
import vectors from '../vectors/canonical-json.json' with { type: 'json' };

describe('floats as Python prints them', () => {
  test.each(vectors.float_repr)('$python', ({ f64le, python }) => {
    expect(pythonFloat(Buffer.from(f64le, 'hex').readDoubleLE())).toBe(python);
  });

  test('every finite double comes back from its text', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(Object.is(Number(pythonFloat(value)), value)).toBe(true);
      }),
    );
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('%d is a bug', (value) => {
    expect(() => pythonFloat(value)).toThrow(RangeError);
  });
});

describe('canonical form', () => {
  // the reference turns 1e400 into the literal Infinity, which is not JSON; we refuse it
  const refused = (input: string) => input.includes('1e400');

  test.each(vectors.canonical.filter(({ input }) => !refused(input)))(
    '$input',
    ({ input, output }) => {
      expect(canonicalize(input)).toEqual({ ok: true, value: output });
    },
  );

  test('refuses what has no form', () => {
    expect(vectors.canonical.filter(({ input }) => refused(input))).toHaveLength(1);
    for (const text of [
      '{"g":1e400}',
      '[-1e400]',
      '["\\ud800"]',
      '{"\\udc00":1}',
      'NaN',
      '[Infinity]',
      '[1,]',
      '',
      '01',
      `[${'9'.repeat(5000)}]`,
      '['.repeat(101) + ']'.repeat(101),
      '['.repeat(100_000) + ']'.repeat(100_000),
    ]) {
      expect(canonicalize(text), text.slice(0, 20)).toMatchObject({
        ok: false,
        issue: { code: 'bad-json' },
      });
    }
  });

  test('keeps integers and floats apart, whatever their size', () => {
    expect(parseJson('[1, 1.0, -0, -0.0, 1e2, 9007199254740993]')).toEqual({
      ok: true,
      value: [1n, 1, 0n, -0, 100, 9007199254740993n],
    });
  });

  test('a key named __proto__ is a key', () => {
    expect(canonicalize('{"__proto__": {"a": 1}, "A": 2}')).toEqual({
      ok: true,
      value: '{"A":2,"__proto__":{"a":1}}',
    });
  });
});

const { json } = fc.letrec<{ json: PythonJson }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.bigInt(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(fc.string({ unit: 'grapheme' }), tie('json'), { maxKeys: 4 }),
  ),
}));

test('canonical text is a fixed point, and so is indented text', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = canonicalJson(value);
      expect(canonicalize(text)).toEqual({ ok: true, value: text });
      expect(canonicalize(indentedJson(value))).toEqual({ ok: true, value: text });
    }),
  );
});

test('agrees with JSON.parse on what is JSON', () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), fc.string({ maxLength: 2 }), (text, at, noise) => {
      const cut = at % (text.length + 1);
      const mutated = text.slice(0, cut) + noise + text.slice(cut + 1);
      const parsed = parseJson(mutated);
      let isJson = true;
      try {
        JSON.parse(mutated);
      } catch {
        isJson = false;
      }
      if (!isJson) expect(parsed.ok).toBe(false);
    }),
    { numRuns: 500 },
  );
});
