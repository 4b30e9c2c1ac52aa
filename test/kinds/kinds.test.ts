import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { checkpoint, gradient, heartbeat, kinds, type Parsed } from 'nostrain/kinds';
import { describe, expect, test } from 'vitest';
import { renderProtocol, renderReadme } from '../../kinds/_render.ts';

const at = (path: string) => new URL(`../../${path}`, import.meta.url);
const read = (path: string) => readFileSync(at(path), 'utf8');

describe('samples', () => {
  const samples = Object.values(kinds).flatMap((kind) =>
    readdirSync(at(`kinds/samples/${kind.name}`)).map((file) => ({ kind, file })),
  );

  test.each(samples)('$kind.name $file', ({ kind, file }) => {
    const event: unknown = JSON.parse(read(`kinds/samples/${kind.name}/${file}`));
    const parsed: Parsed<unknown> = kind.parse(event);
    const [validity, code] = file.split('.');
    if (validity === 'valid') expect(parsed).toMatchObject({ ok: true });
    else expect(parsed).toMatchObject({ ok: false, issue: { code } });
  });

  test('every kind has a valid one and several invalid ones', () => {
    for (const { name } of Object.values(kinds)) {
      const files = readdirSync(at(`kinds/samples/${name}`));
      expect(files).toContain('valid.json');
      expect(files.length).toBeGreaterThan(5);
    }
  });
});

test('the generated pages are up to date (node --import tsx kinds/_render.ts)', () => {
  expect(read('docs/protocol.md')).toBe(renderProtocol());
  expect(read('kinds/README.md')).toBe(renderReadme(read('kinds/README.md')));
});

const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).filter(isName);
const hex = fc.string({
  unit: fc.constantFrom(...'0123456789abcdef'),
  minLength: 64,
  maxLength: 64,
});
const index = fc.integer({ min: 0, max: 0xffffffff });
const count = fc.integer({ min: 1, max: 0xffffffff });
const words = fc.uniqueArray(
  name.filter((text) => text.trim() === text),
  { minLength: 1 },
);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const yes = fc.option(fc.constant(true as const), { nil: undefined });

function isName(text: string): boolean {
  return ![...text].some((char) => char < ' ' || /\p{Surrogate}/u.test(char));
}

const gradients = fc.record({
  run: name,
  round: index,
  worker: name,
  model: name,
  steps: count,
  compression: fc.constantFrom('topk-0.1000-int8-zlib', 'topk-1.0000-int8-zstd'),
  params: count,
  values: count,
  selected: count,
  examples: maybe(count),
  scope: yes,
  payload: fc.uint8Array({ minLength: 1 }).map((bytes) => Buffer.from(bytes).toString('base64')),
});

const heartbeats = fc.record({
  run: name,
  worker: name,
  round: index,
  interval: fc.integer({ min: 1, max: 86_400 }),
  examples: maybe(count),
  capabilities: maybe(words),
  relays: maybe(words),
  model: maybe(hex),
  cohort: maybe(fc.uniqueArray(hex, { maxLength: 5 })),
  leaving: yes,
  scope: yes,
});

const checkpoints = fc
  .record({
    run: name,
    worker: name,
    round: fc.integer({ min: 0, max: 0xfffffffe }),
    slot: maybe(index),
    model: hex,
    roundsCompleted: count,
    checkpoint: hex,
    scope: yes,
    body: fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)),
  })
  .map((value) => ({ ...value, nextRound: value.round + 1 }));

describe('parsing what was built gives the value back', () => {
  const seconds = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
  const back = <T>(parsed: Parsed<T>, value: T) => expect(parsed).toEqual({ ok: true, value });

  test('gradient', () => {
    fc.assert(
      fc.property(gradients, seconds, (value, now) => {
        back(gradient.parse(gradient.build(value, now)), value);
      }),
    );
  });

  test('heartbeat', () => {
    fc.assert(
      fc.property(heartbeats, seconds, (value, now) => {
        back(heartbeat.parse(heartbeat.build(value, now)), value);
      }),
    );
  });

  test('checkpoint', () => {
    fc.assert(
      fc.property(checkpoints, seconds, (value, now) => {
        back(checkpoint.parse(checkpoint.build(value, now)), value);
      }),
    );
  });
});

describe('parse never throws', () => {
  const kind = fc.constantFrom(...Object.values(kinds));

  test('on any JSON', () => {
    fc.assert(
      fc.property(kind, fc.jsonValue(), ({ parse }, json) => {
        expect(parse(json).ok).toBe(false);
      }),
    );
  });

  test('on events with parts replaced by any JSON', () => {
    const part = fc.constantFrom('kind', 'created_at', 'tags', 'content');
    const events = Object.values(kinds).map((each) => ({
      each,
      event: JSON.parse(read(`kinds/samples/${each.name}/valid.json`)) as object,
    }));
    fc.assert(
      fc.property(
        fc.constantFrom(...events),
        part,
        fc.jsonValue(),
        ({ each, event }, key, json) => {
          expect(typeof each.parse({ ...event, [key]: json }).ok).toBe('boolean');
        },
      ),
    );
  });

  test('on tags full of anything', () => {
    const sample: { tags: string[][] } = JSON.parse(read('kinds/samples/gradient/valid.json'));
    const row = fc.array(fc.oneof(fc.string(), fc.jsonValue()), { maxLength: 4 });
    fc.assert(
      fc.property(fc.nat(20), row, (i, tag) => {
        const tags = [...sample.tags.slice(0, i), tag, ...sample.tags.slice(i + 1)];
        expect(typeof gradient.parse({ ...sample, tags }).ok).toBe('boolean');
      }),
    );
  });
});

test('building what the parser would refuse is a bug', () => {
  const value = { run: 'r', worker: 'w', round: 0, interval: 60 };
  expect(heartbeat.build(value, 1).tags).toHaveLength(6);
  expect(() => heartbeat.build({ ...value, round: -1 }, 1)).toThrow(TypeError);
  expect(() => heartbeat.build({ ...value, round: 0.5 }, 1)).toThrow(TypeError);
  expect(() => heartbeat.build({ ...value, run: '' }, 1)).toThrow(TypeError);
  expect(() => heartbeat.build({ ...value, run: 'a\u0000' }, 1)).toThrow(TypeError);
  expect(() => heartbeat.build(value, -1)).toThrow(TypeError);
});

test('filters are as narrow as what is known', () => {
  const base = { kinds: [33333], '#t': ['nostrain'] };
  expect(gradient.filter({})).toEqual(base);
  expect(gradient.filter({ run: 'a' })).toEqual({ ...base, '#s': ['a'] });
  expect(gradient.filter({ run: 'a', round: 3 }, { since: 5, limit: 9 })).toEqual({
    ...base,
    '#s': ['a/3'],
    since: 5,
    limit: 9,
  });
  expect(gradient.filter({ run: 'a', round: 3, worker: 'w' })).toEqual({
    ...base,
    '#d': ['run:a:worker:w:round:3'],
  });
  expect(checkpoint.filter({ run: 'a', worker: 'w', slot: 1 })).toMatchObject({
    '#d': ['run:a:worker:w:checkpoint:slot:1'],
  });
});
