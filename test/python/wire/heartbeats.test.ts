import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { buildHeartbeat, toBeat } from '../../../src/python/wire/heartbeats.ts';
import { type Beat, isStale } from '../../../src/run/beat.ts';
import { signerOf } from '../../support/signers.ts';

const me = signerOf(1);
const nowSeconds = 1_700_000_000;
const context = { run: 'demo', nowSeconds };
const plain: Beat = {
  worker: me.publicKey,
  round: 2,
  intervalSeconds: 60,
  examples: undefined,
  capabilities: [],
  relays: [],
  digest: undefined,
  cohort: undefined,
  leaving: false,
  createdAt: nowSeconds,
};

test('every beat comes back from its event', () => {
  const hex = fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .map((bytes) => Buffer.from(bytes).toString('hex'));
  const words = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z:/.-]{0,20}$/), { maxLength: 4 });
  const beats = fc.record({
    worker: fc.constant(me.publicKey),
    round: fc.nat(),
    intervalSeconds: fc.integer({ min: 1, max: 86_400 }),
    examples: fc.option(fc.integer({ min: 1, max: 0xffffffff }), { nil: undefined }),
    capabilities: words,
    relays: words,
    digest: fc.option(hex, { nil: undefined }),
    cohort: fc.option(fc.uniqueArray(hex, { maxLength: 4 }), { nil: undefined }),
    leaving: fc.boolean(),
    createdAt: fc.integer({ min: 0, max: nowSeconds }),
  });
  fc.assert(
    fc.property(beats, (beat) => {
      const judged = toBeat(me.sign(buildHeartbeat('demo', beat)), context);
      expect(judged).toEqual({ ok: true, value: beat });
    }),
    { numRuns: 50 },
  );
});

describe('rejections', () => {
  const draft = buildHeartbeat('demo', plain);
  const reason = (event: Parameters<typeof toBeat>[0], change = {}) => {
    const judged = toBeat(event, { ...context, ...change });
    return judged.ok ? 'accepted' : judged.rejection.reason;
  };

  test.each([
    ['another key', reason(signerOf(2).sign(draft)), 'worker-key-mismatch'],
    ['another run', reason(me.sign(draft), { run: 'other' }), 'other-run'],
    [
      'a fast clock',
      reason(me.sign({ ...draft, created_at: nowSeconds + 901 })),
      'from-the-future',
    ],
    ['some content', reason(me.sign({ ...draft, content: 'x' })), 'malformed'],
  ])('%s', (_, found, expected) => {
    expect(found).toBe(expected);
  });
});

test('a beat is stale after its missed intervals, a leaving one at once', () => {
  expect(isStale(plain, nowSeconds + 180, 3)).toBe(false);
  expect(isStale(plain, nowSeconds + 181, 3)).toBe(true);
  expect(isStale({ ...plain, leaving: true }, nowSeconds, 3)).toBe(true);
});
