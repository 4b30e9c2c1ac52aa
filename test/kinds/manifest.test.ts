import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { manifest } from '../../kinds/manifest.ts';
import { canonicalize } from '../../src/base/canonical-json.ts';

const hash = 'ab'.repeat(32);
const value = {
  scope: ['demo', 'demo/4'],
  x: hash,
  expiration: 2_000_000_000,
  run: 'demo',
  round: 4,
  base: 'cd'.repeat(32),
  codec: 'none',
  hash,
  bytes: 3,
  root: hash,
  examples: 7,
  steps: 2,
  payload: 'AQID',
};
const draft = manifest.build(value, 1);
const json = JSON.parse(draft.content) as Record<string, unknown>;

const hex = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => toHex(bytes));
const toHex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const count = fc.integer({ min: 1, max: 0xffffffff });

const manifests = fc
  .record({
    run: fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
      .filter((text) => ![...text].some((char) => char < ' ' || /\p{Surrogate}/u.test(char))),
    round: fc.integer({ min: 0, max: 0xffffffff }),
    base: hex,
    codec: fc.constantFrom('none', 'topk-0.1000-int8-zlib'),
    hash: hex,
    root: hex,
    examples: count,
    steps: count,
    expiration: count,
    prev: fc.option(hex, { nil: undefined }),
    payload: fc.option(fc.uint8Array({ minLength: 1, maxLength: 99 }), { nil: undefined }),
    large: fc.integer({ min: 45_057, max: 2_952_790_016 }),
  })
  .map(({ payload, large, ...rest }) => ({
    ...rest,
    scope: [rest.run, `${rest.run}/${rest.round}`],
    x: rest.root,
    bytes: payload?.length ?? large,
    payload: payload === undefined ? undefined : Buffer.from(payload).toString('base64'),
  }));

test('parsing what was built gives the value back, from canonical JSON', () => {
  fc.assert(
    fc.property(manifests, (each) => {
      const built = manifest.build(each, 1);
      expect(manifest.parse(built)).toEqual({ ok: true, value: each });
      expect(canonicalize(built.content)).toEqual({ ok: true, value: built.content });
    }),
  );
});

describe('content', () => {
  const code = (content: string) => {
    const parsed = manifest.parse({ ...draft, content });
    return parsed.ok ? 'accepted' : parsed.issue.code;
  };
  const sorted = (object: object) =>
    JSON.stringify(Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))));

  test.each([
    ['as built', draft.content, 'accepted'],
    ['keys in another order', JSON.stringify({ steps: 2, ...json }), 'bad-content'],
    ['a space', draft.content.replace(',', ', '), 'bad-content'],
    ['a key twice', draft.content.replace('"steps":2', '"steps":2,"steps":2'), 'bad-content'],
    ['an escape', draft.content.replace('demo', '\\u0064emo'), 'bad-content'],
    ['a float', draft.content.replace('"steps":2', '"steps":2.0'), 'bad-content'],
    ['an exponent', draft.content.replace('"steps":2', '"steps":2e0'), 'bad-content'],
    ['minus nothing', draft.content.replace('"round":4', '"round":-0'), 'bad-content'],
    ['a number as text', sorted({ ...json, steps: '2' }), 'bad-content'],
    ['text as a number', sorted({ ...json, run: 5 }), 'bad-content'],
    ['text in a list', sorted({ ...json, run: ['demo'] }), 'bad-content'],
    ['an object nothing can print', sorted({ ...json, run: { toString: 1 } }), 'bad-content'],
    ['null', sorted({ ...json, prev: null }), 'bad-content'],
    ['another member', sorted({ ...json, loss: 1 }), 'bad-content'],
    ['a prototype', sorted({ ...json, ['__proto__']: 1 }), 'bad-content'],
    ['too much', `${draft.content}${' '.repeat(65_536)}`, 'bad-content'],
    ['nothing', '', 'bad-content'],
    ['a list', '[]', 'bad-content'],
    ['another run', sorted({ ...json, run: 'other' }), 'broken-rule'],
    ['another round', sorted({ ...json, round: 5 }), 'broken-rule'],
    ['another root', sorted({ ...json, root: value.base }), 'broken-rule'],
    ['a payload that is too long', sorted({ ...json, bytes: 2 }), 'broken-rule'],
    ['a payload that belongs in chunks', sorted({ ...json, bytes: 45_057 }), 'broken-rule'],
    ['no payload', sorted({ ...json, payload: undefined }), 'broken-rule'],
  ])('%s', (_, content, expected) => {
    expect(code(content)).toBe(expected);
  });
});

test('tags that say something else than the content are refused', () => {
  const withScope = (...scope: string[]) => {
    const others = draft.tags.filter(([tag]) => tag !== 's');
    const tags = [...others, ...scope.map((each) => ['s', each])];
    return manifest.parse({ ...draft, tags }).ok;
  };
  expect(withScope('demo', 'demo/4')).toBe(true);
  expect(withScope('demo')).toBe(false);
  expect(withScope('demo/4', 'demo')).toBe(false);
  expect(withScope('demo', 'demo/4', 'demo/5')).toBe(false);
  expect(withScope('other', 'other/4')).toBe(false);
  expect(() => manifest.build({ ...value, x: value.base }, 1)).toThrow(TypeError);
  expect(() => manifest.build({ ...value, scope: ['demo', 'demo/5'] }, 1)).toThrow(TypeError);
});

test('filters ask by scope', () => {
  expect(manifest.filter({ scope: ['demo/4'] }, { limit: 9 })).toEqual({
    kinds: [7810],
    '#t': ['nostrain'],
    '#s': ['demo/4'],
    limit: 9,
  });
  expect(manifest.filter({})).toEqual({ kinds: [7810], '#t': ['nostrain'] });
});
