import fc from 'fast-check';
import { buildHeartbeat, toHeartbeat } from 'nostrain/python/parts';
import type { Heartbeat } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { isStale } from '../../../src/run/contribution.ts';
import { signerOf } from '../../support/signers.ts';

const me = signerOf(1);
const nowSeconds = 1_700_000_000;
const context = { run: 'demo', nowSeconds };
const plain: Heartbeat = {
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

test('every heartbeat comes back from its event', () => {
  const hex = fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .map((bytes) => Buffer.from(bytes).toString('hex'));
  const words = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z:/.-]{0,20}$/), { maxLength: 4 });
  const heartbeats = fc.record({
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
    fc.property(heartbeats, (heartbeat) => {
      const judged = toHeartbeat(me.sign(buildHeartbeat('demo', heartbeat)), context);
      expect(judged).toEqual({ ok: true, value: heartbeat });
    }),
    { numRuns: 50 },
  );
});

describe('rejections', () => {
  const draft = buildHeartbeat('demo', plain);
  const reason = (event: Parameters<typeof toHeartbeat>[0], change = {}) => {
    const judged = toHeartbeat(event, { ...context, ...change });
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

test('a heartbeat is stale after its missed intervals, a leaving one at once', () => {
  expect(isStale(plain, nowSeconds + 180, 3)).toBe(false);
  expect(isStale(plain, nowSeconds + 181, 3)).toBe(true);
  expect(isStale({ ...plain, leaving: true }, nowSeconds, 3)).toBe(true);
});
