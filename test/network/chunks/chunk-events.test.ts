import {
  createAssembly,
  type EventDraft,
  planChunks,
  type SignedEvent,
  toChunk,
  verifyEvent,
} from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import sample from '../../../kinds/samples/chunk/valid.json' with { type: 'json' };
import { type ChunkPlan, chunkKey } from '../../../src/network/chunks/payload.ts';
import { signerOf } from '../../support/signers.ts';

const SIZE = 45_056;
const me = signerOf(1);
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_600_000 };
const payload = Uint8Array.from({ length: 2 * SIZE + 9 }, (_, i) => i ^ (i >>> 8));
const plan = planChunks(payload, lifetime);
const draftsOf = ({ count, draft }: ChunkPlan) =>
  Array.from({ length: count }, (_, index) => draft(index));
const drafts = draftsOf(plan);
const context = { maxPayloadBytes: payload.length };
const last = drafts[2]!;

const judge = (event: SignedEvent, maxPayloadBytes = payload.length) => {
  const judged = toChunk(event, { maxPayloadBytes });
  return judged.ok ? 'accepted' : judged.rejection.reason;
};
const signed = (draft: EventDraft, change: Partial<EventDraft> = {}) =>
  me.sign({ ...draft, ...change });
const withTag = (draft: EventDraft, tag: string, ...values: readonly string[]) =>
  signed(draft, { tags: draft.tags.map((row) => (row[0] === tag ? [tag, ...values] : row)) });

test('a payload is restored from its events, signed by any key, in any order', () => {
  const made = createAssembly(plan, { maxBytes: payload.length });
  if (!made.ok) throw new Error(made.issue.code);
  for (const [i, draft] of drafts.toReversed().entries()) {
    const judged = toChunk(signerOf(i + 1).sign(draft), context);
    if (!judged.ok) throw new Error(judged.rejection.detail);
    expect(made.value.add(judged.value)).toEqual({ ok: true, value: true });
  }
  const result = made.value.result();
  expect(result.ok && Buffer.compare(result.bytes, payload)).toBe(0);
});

test('drafts are the same every time, and carry what relays index', () => {
  expect(draftsOf(plan)).toEqual(drafts);
  expect(plan).toMatchObject({ bytes: payload.length, count: 3 });
  expect(last.created_at).toBe(lifetime.createdAt);
  expect(last.tags.map(([tag]) => tag).join(' ')).toBe('t x c index count bytes path expiration');
  expect(last.tags).toContainEqual(['expiration', '1700600000']);
});

test('one chunk needs no path', () => {
  const draft = planChunks(payload.subarray(0, SIZE), lifetime).draft(0);
  expect(draft?.tags.some(([tag]) => tag === 'path')).toBe(false);
  expect(judge(signed(draft!))).toBe('accepted');
});

test('a full chunk of the largest payload is an event of less than 64 KiB', () => {
  const longest = Array.from({ length: 16 }, () => 'f'.repeat(64));
  const widest = { index: '65535', count: '65536', bytes: '2952790016' };
  const tags = drafts[0]!.tags.map(([tag = '', ...values]) => {
    if (tag === 'path') return [tag, ...longest];
    if (tag === 'c') return [tag, `${values[0]!.slice(0, 16)}/65535`];
    return [tag, widest[tag as keyof typeof widest] ?? values[0]!];
  });
  const event = signed(drafts[0]!, { tags });
  expect(Buffer.byteLength(JSON.stringify(['EVENT', event]))).toBeLessThan(65_535);
  expect(drafts[0]!.content.length).toBe(60_076);
});

describe('rejections', () => {
  const path = last.tags.find(([tag]) => tag === 'path')!.slice(1);
  test.each([
    ['untouched', signed(last), 'accepted'],
    ['from long ago or from the future', signed(last, { created_at: 4_000_000_000 }), 'accepted'],
    ['another byte', signed(last, { content: 'AAAAAAAAAAAA' }), 'malformed'],
    ['too few bytes', signed(last, { content: 'AAAA' }), 'malformed'],
    ['content far too long', signed(last, { content: 'A'.repeat(60_080) }), 'too-large'],
    ['another root', withTag(last, 'x', 'ab'.repeat(32)), 'malformed'],
    ['no path', signed(last, { tags: last.tags.filter(([t]) => t !== 'path') }), 'malformed'],
    ['a path too long', withTag(last, 'path', ...path, 'ab'.repeat(32)), 'malformed'],
    ['another path', withTag(last, 'path', 'ab'.repeat(32)), 'malformed'],
    ['another length', withTag(last, 'bytes', String(2 * SIZE + 8)), 'malformed'],
    ['another kind', signed(last, { kind: 7810 }), 'malformed'],
  ])('%s', (_, event, expected) => {
    expect(judge(event)).toBe(expected);
  });

  test('a payload over the limit', () => {
    expect(judge(signed(last), payload.length - 1)).toBe('too-large');
  });

  test('base64 with stray bits', () => {
    const draft = planChunks(Uint8Array.of(1), lifetime).draft(0);
    expect(draft?.content).toBe('AQ==');
    expect(judge(signed(draft!, { content: 'AR==' }))).toBe('malformed');
  });
});

test('a chunk is asked for by its key', () => {
  const keys = drafts.map((_, index) => chunkKey(plan.root, index));
  expect(keys).toEqual(drafts.map(({ tags }) => tags.find(([t]) => t === 'c')![1]!));
});

test('an event is not over before it is made', () => {
  expect(() => planChunks(payload, { createdAt: 5, expiresAt: 5 })).toThrow(RangeError);
});

test('the sample is signed and proves itself', () => {
  expect(verifyEvent(sample).ok).toBe(true);
  expect(judge(sample, 4 * SIZE + 9)).toBe('accepted');
});
