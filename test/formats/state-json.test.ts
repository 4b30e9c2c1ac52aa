import fc from 'fast-check';
import { ConfigError } from 'nostrain/base';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { formatStateJson, parseStateJson } from '../../src/formats/state-json.ts';
import cli from '../vectors/cli.json' with { type: 'json' };
import vectors from '../vectors/state-digest.json' with { type: 'json' };

describe('edge cases of the reference', () => {
  // Python's int() and float() take text, booleans and fractions; we do not guess
  const refusedHere = ['string-values-accepted', 'fractional-shape-truncated'];

  test.each(vectors.parse_edge_cases)('$name', ({ name, json, ok }) => {
    const parse = () => parseStateJson(JSON.stringify(json));
    expect(ok).toBe(refusedHere.includes(name));
    expect(parse).toThrow(ConfigError);
  });
});

test.each([
  '',
  '[]',
  '{"parameters": {"w": {"shape": [1], "values": [NaN]}}}',
  '{"parameters": {"w": {"shape": [1], "values": [1e999]}}}',
  '{"parameters": {"w": {"shape": [4294967296, 0], "values": []}}}',
  '{"parameters": {"w": {"shape": [1], "values": [null]}}}',
  '{"parameters": {"w": {"shape": {"0": 1}, "values": [1]}}}',
  `{"parameters": {"w": {"shape": [1], "values": [1${'0'.repeat(400)}]}}}`,
  `{"parameters": {"${'n'.repeat(65_536)}": {"shape": [1], "values": [1]}}}`,
])('refuses %s', (text) => {
  expect(() => parseStateJson(text)).toThrow(ConfigError);
});

test('a bare integer is a shape of rank one', () => {
  const { layout } = parseStateJson('{"parameters": {"w": {"shape": 2, "values": [1, 2.5]}}}');
  expect(layout.slots[0]?.shape).toEqual([2]);
});

test('writes the bytes the reference writes', () => {
  const states = cli.invocations
    .flatMap(({ files }) => Object.values(files ?? {}))
    .filter((text) => text?.startsWith('{\n  "parameters"'));
  expect(states.length).toBeGreaterThan(1);
  for (const text of states) expect(formatStateJson(parseStateJson(text ?? ''))).toBe(text);
});

test('every finite state comes back from its text', () => {
  const finite = fc.double({ noNaN: true, noDefaultInfinity: true });
  const tensor = fc.record({
    name: fc.string({ unit: 'grapheme', minLength: 1 }),
    values: fc.array(finite, { maxLength: 5 }),
  });
  const tensors = fc.uniqueArray(tensor, { minLength: 1, selector: ({ name }) => name });
  fc.assert(
    fc.property(tensors, (list) => {
      const layout = createLayout(
        list.map(({ name, values }) => ({ name, shape: [values.length] })),
      );
      const values = Float64Array.from(list.flatMap((each) => each.values));
      const read = parseStateJson(formatStateJson({ layout, values }));
      const again = parseStateJson(formatStateJson(read));
      expect(stateDigest(again)).toBe(stateDigest(read));
      for (const { name, offset, size } of read.layout.slots) {
        const given = layout.slots.find((slot) => slot.name === name)!;
        expect(read.values.slice(offset, offset + size)).toEqual(
          values.slice(given.offset, given.offset + given.size),
        );
      }
    }),
  );
});
