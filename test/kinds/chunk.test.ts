import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chunk } from '../../kinds/chunk.ts';

const root = '0123456789abcdef'.repeat(4);
const value = {
  root,
  index: 2,
  count: 3,
  bytes: 2 * 45_056 + 4,
  path: ['ab'.repeat(32)],
  expiration: 2_000_000_000,
  data: 'AQIDBA==',
};

test('parsing what was built gives the value back', () => {
  const lengths = fc.tuple(fc.nat(65_535), fc.integer({ min: 1, max: 99 }));
  fc.assert(
    fc.property(lengths, fc.nat(16), ([index, last], hashes) => {
      const path = Array.from({ length: hashes }, (_, i) => String(i).padStart(64, '0'));
      const data = Buffer.alloc(last, index).toString('base64');
      const bytes = index * 45_056 + last;
      const each = { ...value, index, count: index + 1, bytes, path, data };
      expect(chunk.parse(chunk.build(each, 1))).toEqual({ ok: true, value: each });
    }),
    { numRuns: 50 },
  );
});

test('the key repeats root and index', () => {
  const draft = chunk.build(value, 1);
  expect(draft.tags).toContainEqual(['c', '0123456789abcdef/2']);
  const tags = draft.tags.map((row) => (row[0] === 'c' ? ['c', '0123456789abcdef/1'] : row));
  expect(chunk.parse({ ...draft, tags })).toMatchObject({ issue: { at: 'tags.c' } });
  expect(chunk.filter({ root, index: 2 })).toEqual({
    kinds: [7811],
    '#t': ['nostrain'],
    '#c': ['0123456789abcdef/2'],
  });
  expect(chunk.filter({ root })).toEqual({ kinds: [7811], '#t': ['nostrain'] });
});

test.each<[string, Partial<typeof value>]>([
  ['an index beyond the count', { index: 3 }],
  ['a count that does not follow from the length', { count: 4 }],
  ['a chunk in the middle that is short', { index: 1 }],
  ['a letter of another alphabet', { data: 'AQID-A==' }],
  ['a letter beyond ASCII', { data: 'AQIDé\ud83d==' }],
  ['a break of lines', { data: 'AQI\nBA==' }],
  ['padding in the middle', { data: 'AQ==BA==' }],
  ['padding alone', { data: '====' }],
  ['a last chunk that is long', { data: 'AQIDBAU=' }],
  ['more chunks than there can be', { count: 65_537, bytes: 65_537 * 45_056 }],
  [
    'a longer path than there can be',
    { path: Array.from('0123456789abcdefg', (c) => c.repeat(64)) },
  ],
])('%s is refused', (_, change) => {
  expect(() => chunk.build({ ...value, ...change }, 1)).toThrow(TypeError);
});
