import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { below, deriveKey, type Key, philox, unit } from '../../src/base/rng.ts';

const hex = (words: readonly number[]) =>
  words.map((word) => word.toString(16).padStart(8, '0')).join(' ');

describe('Philox4x32-10 known answers (Random123 kat_vectors)', () => {
  const ones = 0xffffffff;
  const cases: [string, Key, [number, number, number, number], string][] = [
    ['zeros', [0, 0], [0, 0, 0, 0], '6627e8d5 e169c58d bc57ac4c 9b00dbd8'],
    ['ones', [ones, ones], [ones, ones, ones, ones], '408f276d 41c83b0e a20bc7c6 6d5451fd'],
    [
      'digits of pi',
      [0xa4093822, 0x299f31d0],
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      'd16cfe09 94fdcceb 5001e420 24126ea1',
    ],
  ];
  test.each(cases)('%s', (_, key, counter, answer) => {
    expect(hex(philox(key, ...counter))).toBe(answer);
  });
});

test('a key follows from its label and fields, and from where one field ends', () => {
  expect(deriveKey('shuffle', 'run', 3)).toEqual(deriveKey('shuffle', 'run', 3));
  expect(deriveKey('shuffle', 'run', 3)).not.toEqual(deriveKey('shuffle', 'ru', 'n3'));
  expect(deriveKey('shuffle')).not.toEqual(deriveKey('init'));
});

const word = fc.integer({ min: 0, max: 0xffffffff });

test('a uniform double is strictly between 0 and 1', () => {
  expect(unit(0)).toBeGreaterThan(0);
  expect(unit(0xffffffff)).toBeLessThan(1);
});

test('an integer draw stays below its bound', () => {
  fc.assert(
    fc.property(word, fc.integer({ min: 1, max: 1_000_000 }), (draw, bound) => {
      const value = below(draw, bound);
      expect(Number.isInteger(value) && value >= 0 && value < bound).toBe(true);
    }),
  );
});
