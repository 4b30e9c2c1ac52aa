import fc from 'fast-check';
import { gradient } from 'nostrain/kinds';
import type { EventDraft, SignedEvent } from 'nostrain/network';
import { buildGradient, toContribution } from 'nostrain/python/parts';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import type { GradientContext, GradientDraft } from '../../../src/python/wire/messages.ts';
import { signerOf } from '../../support/signers.ts';
import { valuesOf } from '../../support/vectors.ts';
import { payloadOf, validBlock } from '../support/nstr-blocks.ts';

const me = signerOf(1);
const base = 'ab'.repeat(32);
const nowSeconds = 1_700_000_000;
const layout = createLayout([
  { name: 'a', shape: [2] },
  { name: 'b', shape: [3] },
]);
const own: GradientDraft = { run: 'demo', round: 3, worker: me.publicKey, base, steps: 10 };
const delta = { layout, values: Float32Array.of(0.5, -1, 0, 0.25, 2) };
const context: GradientContext = {
  run: 'demo',
  round: 3,
  base,
  layout,
  maxContainerBytes: 4096,
  nowSeconds,
};
const { draft, sent, eventBytes, payloadBytes } = buildGradient(
  own,
  delta,
  { ratio: 0.6 },
  nowSeconds,
);

const judge = (event: SignedEvent, change: Partial<GradientContext> = {}) => {
  const judged = toContribution(event, { ...context, ...change });
  return judged.ok ? 'accepted' : judged.rejection.reason;
};
const signed = (change: Partial<EventDraft>) => me.sign({ ...draft, ...change });
const withTag = (tag: string, value: string) =>
  signed({ tags: draft.tags.map((row) => (row[0] === tag ? [tag, value] : row)) });

test('a contribution says what its builder knew', () => {
  const event = me.sign({ ...draft });
  const judged = toContribution(event, context);
  expect(judged.ok && valuesOf(judged.value.delta)).toEqual(valuesOf(sent));
  expect(judged).toEqual({
    ok: true,
    value: {
      worker: me.publicKey,
      eventId: event.id,
      round: 3,
      base,
      delta: expect.anything(),
      examples: undefined,
      steps: 10,
      createdAt: nowSeconds,
      payloadBytes,
      eventBytes,
    },
  });
  expect(JSON.stringify(event)).toHaveLength(eventBytes);
});

test('the wire carries after - before: the sign turns once each way', () => {
  // largest magnitude 2 at index 4, so scale 2/127 and Δ = +2 there is sent as -127
  expect([...valuesOf(sent)].map(Math.sign)).toEqual([1, -1, 0, 0, 1]);
  const content = Buffer.from(draft.content, 'base64');
  expect(content.subarray(0, 4).toString()).toBe('NSCP');
  const hand = payloadOf({ ...validBlock(), indices: [4], quantized: [-127], ratio: 0.2 });
  const tags = draft.tags.map((row) => {
    if (row[0] === 'compression') return ['compression', 'topk-0.2000-int8-zlib'];
    return row[0] === 'selected' ? ['selected', '1'] : row;
  });
  const judged = toContribution(signed({ tags, content: hand }), context);
  expect(judged.ok && [...valuesOf(judged.value.delta)]).toEqual([0, 0, 0, 0, 63.5]);
});

test('zeros stay +0 in what is sent and in what is received', () => {
  const zeros = { layout, values: new Float64Array(5) };
  const made = buildGradient(own, zeros, { ratio: 1 }, nowSeconds);
  expect([...valuesOf(made.sent)]).toEqual([0, 0, 0, 0, 0]);
  const judged = toContribution(me.sign(made.draft), context);
  expect(judged.ok && [...valuesOf(judged.value.delta)]).toEqual([0, 0, 0, 0, 0]);
});

describe('rejections', () => {
  test('the kind is judged first', () => {
    expect(judge(signed({ kind: 33334 }))).toBe('malformed');
    expect(judge(withTag('steps', '0'))).toBe('malformed');
  });

  test('a worker speaks for itself only', () => {
    const event = signerOf(2).sign(draft);
    expect(judge(event)).toBe('worker-key-mismatch');
    expect(toContribution(event, context)).toMatchObject({
      rejection: { worker: signerOf(2).publicKey },
    });
  });

  test('run, round, date and base', () => {
    const event = signed({});
    expect(judge(event, { run: 'other' })).toBe('other-run');
    expect(judge(event, { round: 4 })).toBe('wrong-round');
    expect(judge(event, { round: undefined })).toBe('accepted');
    expect(judge(event, { nowSeconds: nowSeconds - 15 * 60 })).toBe('accepted');
    expect(judge(event, { nowSeconds: nowSeconds - 15 * 60 - 1 })).toBe('from-the-future');
    expect(judge(event, { base: undefined })).toBe('accepted');
    expect(toContribution(event, { ...context, base: 'cd'.repeat(32) })).toMatchObject({
      rejection: {
        reason: 'base-mismatch',
        detail: `started from ${base}, we from ${'cd'.repeat(32)}`,
      },
    });
  });

  test('a payload that is not what the tags say', () => {
    expect(judge(withTag('compression', 'topk-0.5000-int8-zlib'))).toBe('malformed');
    expect(judge(withTag('compression', 'topk-0.6000-int8-zstd'))).toBe('malformed');
    expect(judge(withTag('params', '3'))).toBe('malformed');
    expect(judge(withTag('values', '6'))).toBe('malformed');
    expect(judge(withTag('selected', '2'))).toBe('malformed');
  });

  test('a payload that is not sound', () => {
    const content = (change: object) =>
      judge(signed({ content: payloadOf({ ...validBlock(), ...change }) }));
    expect(content({ total: 0xffffffff })).toBe('wrong-shape');
    expect(content({ indices: [1, 1] })).toBe('bad-index');
    expect(content({ scale: Number.NaN })).toBe('not-finite');
    expect(content({ scale: -1 })).toBe('malformed');
    expect(judge(signed({ content: 'AAAA' }))).toBe('malformed');
    expect(judge(signed({}), { maxContainerBytes: 16 })).toBe('too-large');
    expect(judge(signed({}), { layout: createLayout([{ name: 'a', shape: [5] }]) })).toBe(
      'wrong-shape',
    );
  });
});

test('what a builder sends is what every receiver decodes', () => {
  const value = fc.double({ min: -1e20, max: 1e20, noNaN: true });
  const values = fc.array(value, { minLength: 5, maxLength: 5 });
  const ratio = fc.double({ min: 0.001, max: 1, noNaN: true });
  fc.assert(
    fc.property(values, ratio, fc.nat(1000), (list, share, round) => {
      fc.pre(Math.max(...list.map(Math.abs)) > 1e-300);
      const built = buildGradient(
        { ...own, round, examples: round + 1 },
        { layout, values: Float64Array.from(list) },
        { ratio: share },
        nowSeconds,
      );
      const judged = toContribution(me.sign(built.draft), { ...context, round });
      expect(judged).toMatchObject({ ok: true, value: { examples: round + 1 } });
      const values = valuesOf(built.sent);
      expect(judged.ok && valuesOf(judged.value.delta)).toEqual(values);
      values.forEach((value, i) => {
        const difference = value === 0 ? 0 : Math.abs(list[i]! - value);
        expect(difference).toBeLessThanOrEqual(built.stats.scale * 0.5000001);
      });
    }),
    { numRuns: 50 },
  );
});

test('relays find it by run and by round', () => {
  const scopes = draft.tags.filter(([tag]) => tag === 's').map(([, value]) => value);
  expect(scopes).toEqual(['demo', 'demo/3']);
  expect(gradient.filter({ run: 'demo', round: 3 })['#s']).toEqual(['demo/3']);
});
