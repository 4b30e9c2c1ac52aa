import { sha256Hex } from 'nostrain/base';
import {
  buildManifest,
  chunkTree,
  type EventDraft,
  matchesFilter,
  type SignedEvent,
  verifyEvent,
} from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import sample from '../../../kinds/samples/manifest/valid.json' with { type: 'json' };
import largeSample from '../../../kinds/samples/manifest/valid.large.json' with { type: 'json' };
import {
  judgePayload,
  type LocalManifest,
  type ManifestContext,
  manifestFilter,
  toManifest,
} from '../../../src/network/wire/manifests.ts';
import { signerOf } from '../../support/signers.ts';

const SIZE = 51_870;
const me = signerOf(1);
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_600_000 };
const own: LocalManifest = {
  run: 'demo',
  round: 3,
  base: 'ab'.repeat(32),
  codec: 'topk-0.1000-int8-zlib',
  examples: 320,
  steps: 10,
};
const context: ManifestContext = {
  run: 'demo',
  round: 3,
  base: own.base,
  maxPayloadBytes: 100_000,
  nowSeconds: lifetime.createdAt,
};
const payloadOf = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => i ^ (i >>> 8));
const small = payloadOf(100);
const built = buildManifest(own, small, lifetime);
const event = me.sign(built.draft);
const large = buildManifest({ ...own, prev: event.id }, payloadOf(SIZE + 1), lifetime);

const judge = (judged: SignedEvent, change: Partial<ManifestContext> = {}) => {
  const verdict = toManifest(judged, { ...context, ...change });
  return verdict.ok ? 'accepted' : verdict.rejection.reason;
};
const signed = (change: Partial<EventDraft>) => me.sign({ ...built.draft, ...change });
/** The small manifest saying something else, in canonical JSON all the same. */
const saying = (change: object, tags = built.draft.tags) => {
  const members = { ...JSON.parse(built.draft.content), ...change };
  const content = JSON.stringify(members, Object.keys(members).sort());
  return signed({ content, tags });
};

test('a small payload rides inside', () => {
  expect(toManifest(event, context)).toEqual({
    ok: true,
    value: {
      ...own,
      prev: undefined,
      worker: me.publicKey,
      eventId: event.id,
      bytes: 100,
      root: chunkTree(small).root,
      hash: sha256Hex(small),
      payload: small,
      createdAt: lifetime.createdAt,
      eventBytes: built.eventBytes,
    },
  });
  expect(built.eventBytes).toBe(Buffer.byteLength(JSON.stringify(event)));
});

test('a large one comes in chunks, and the manifest names them', () => {
  const judged = toManifest(me.sign(large.draft), context);
  if (!judged.ok) throw new Error(judged.rejection.detail);
  expect(judged.value).toMatchObject({ bytes: SIZE + 1, prev: event.id, payload: undefined });
  expect(judged.value.root).toBe(chunkTree(payloadOf(SIZE + 1)).root);
  expect(judgePayload(judged.value, payloadOf(SIZE + 1))).toBeUndefined();
  expect(judgePayload(judged.value, payloadOf(SIZE))).toMatchObject({
    reason: 'malformed',
    worker: me.publicKey,
  });
});

test.each([
  ['plain', 'demo'],
  ['wide', '\u{4e00}'.repeat(256)],
  ['escaped', '"\\'.repeat(128)],
])('44 KiB inside make an event of less than 64 KiB, with a %s name', (_, run) => {
  const codec = 'c'.repeat(64);
  const most = { examples: 0xffff_ffff, steps: 0xffff_ffff, round: 0xffff_ffff };
  const full = { ...own, ...most, run, codec, prev: event.id };
  const { draft, eventBytes } = buildManifest(full, payloadOf(45_056), lifetime);
  expect(eventBytes).toBeLessThan(65_536);
  const sent = me.sign(draft);
  expect(Buffer.byteLength(JSON.stringify(['EVENT', sent]))).toBeLessThan(65_535);
  expect(judge(sent, { run, round: undefined })).toBe('accepted');
});

describe('rejections', () => {
  test.each([
    ['untouched', saying({}), 'accepted'],
    ['an unknown member', saying({ mood: 'good' }), 'malformed'],
    ['another round in the content', saying({ round: 4 }), 'malformed'],
    ['another hash', saying({ hash: own.base }), 'malformed'],
    ['other bytes', saying({ payload: `AAAA${'A'.repeat(130)}==` }), 'malformed'],
    ['stray bits', saying({ payload: `${'A'.repeat(133)}B==` }), 'malformed'],
    [
      'another root, in both places',
      saying(
        { root: own.base },
        built.draft.tags.map((row) => (row[0] === 'x' ? ['x', own.base] : row)),
      ),
      'malformed',
    ],
    ['no content', signed({ content: '' }), 'malformed'],
    ['a date ahead', signed({ created_at: lifetime.createdAt + 901 }), 'from-the-future'],
    ['a date a little ahead', signed({ created_at: lifetime.createdAt + 900 }), 'accepted'],
    ['another kind', signed({ kind: 7811 }), 'malformed'],
  ])('%s', (_, judged, expected) => {
    expect(judge(judged)).toBe(expected);
  });

  test.each<[string, Partial<ManifestContext>, string]>([
    ['another run', { run: 'other' }, 'other-run'],
    ['another round', { round: 4 }, 'wrong-round'],
    ['any round', { round: undefined }, 'accepted'],
    ['another base', { base: 'cd'.repeat(32) }, 'base-mismatch'],
    ['another base, unchecked', { base: undefined }, 'accepted'],
    ['a smaller limit', { maxPayloadBytes: 99 }, 'too-large'],
    ['a limit that is met', { maxPayloadBytes: 100 }, 'accepted'],
  ])('%s expected', (_, change, expected) => {
    expect(judge(event, change)).toBe(expected);
  });

  test('a large payload over the limit', () => {
    expect(judge(me.sign(large.draft), { maxPayloadBytes: SIZE })).toBe('too-large');
  });
});

test('filters ask for a run or for one round', () => {
  expect(manifestFilter('demo')).toEqual({ kinds: [7810], '#t': ['nostrain'], '#s': ['demo'] });
  expect(matchesFilter(manifestFilter('demo'), event)).toBe(true);
  expect(matchesFilter(manifestFilter('demo', 3), event)).toBe(true);
  expect(matchesFilter(manifestFilter('demo', 4), event)).toBe(false);
});

test('the same values always make the same content', () => {
  expect(buildManifest(own, small, lifetime)).toEqual(built);
  expect(() => buildManifest(own, small, { createdAt: 9, expiresAt: 9 })).toThrow(RangeError);
});

test.each([sample, largeSample])('sample %# is signed and true', (each) => {
  expect(verifyEvent(each).ok).toBe(true);
  expect(judge(each, { round: 4, base: undefined, maxPayloadBytes: 1 << 20 })).toBe('accepted');
});
