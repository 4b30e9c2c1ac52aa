/** A relay that sends a hundred thousand random frames: nothing throws, memory stays bounded, and valid events arrive. */
import fc from 'fast-check';
import { createRelaySet, createSigner, defaultQuota, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { expect, test } from 'vitest';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { forgedTwin } from '../../support/signers.ts';
import { watchCollections } from '../../support/watch-collections.ts';

const MESSAGES = 100_000;
/** Entries of all Maps and Sets of the transport after the flood. */
const MOST_ENTRIES = 5000;
const GENUINE_EVERY = 250;
const SEED = 20_261_121;
const URLS = ['ws://hostile.test', 'ws://honest.test'];

const signer = createSigner(new Uint8Array(32).fill(1), nativeCrypto);
const eventOf = (content: string) =>
  signer.sign({ kind: 1000, created_at: 1_700_000_000, tags: [], content });

/** Draws from [0, 1), the same every time (mulberry32). */
function createDraw(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Messages of a relay that wants to do harm: text, or undefined for a binary one. */
function createHarm(draw: () => number): () => string | undefined {
  const sample = <T>(arbitrary: fc.Arbitrary<T>, numRuns: number) =>
    fc.sample(arbitrary, { seed: SEED, numRuns });
  const anyValues = sample(fc.jsonValue(), 500);
  const anyTexts = sample(fc.oneof(fc.json(), fc.string({ unit: 'binary' })), 500);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(draw() * items.length)]!;
  const any = () => pick(anyValues);
  const words = ['', 'error: busy', 'rate-limited: slow', 'auth-required: who', 'x'.repeat(2000)];
  const names = ['n1', 'n2', 'n3', 'q1', 'x1', 'x2', 'x3', '', '__proto__', 'constructor'];
  const name = () => pick(names);
  const genuine = Array.from({ length: 20 }, (_, i) => eventOf(`harmless ${i}`));
  const huge = 'A'.repeat(60_000);
  const id = () => pick(genuine).id;
  const fields = Object.keys(genuine[0]!);
  const json = (...frame: readonly unknown[]) => JSON.stringify(frame);
  const valid = () => json('EVENT', name(), pick(genuine));

  const kinds: readonly (readonly [weight: number, make: () => string | undefined])[] = [
    [10, () => pick(anyTexts)],
    [
      10,
      () => json(pick(['EVENT', 'EOSE', 'CLOSED', 'OK', 'NOTICE', 'AUTH']), any(), any(), any()),
    ],
    [10, () => json('EVENT', name(), any())],
    [10, () => json('EVENT', name(), { ...pick(genuine), [pick(fields)]: any() })],
    [3, () => json('EVENT', name(), forgedTwin(pick(genuine)))],
    [3, () => json('EVENT', name(), { ...pick(genuine), created_at: 4e9, content: 'forged' })],
    [5, () => json('EVENT', `n${Math.floor(draw() * 1e6)}`, pick(genuine))],
    [5, valid],
    [5, () => valid().slice(0, Math.floor(draw() * 300))],
    [5, () => json('OK', id(), draw() < 0.5, pick(words))],
    [10, () => json('EOSE', name(), pick([[], ['more'], ['finish'], any()]))],
    [5, () => json('CLOSED', name(), pick(words))],
    [5, () => json('NOTICE', pick([...words, 'too large']))],
    [5, () => json('AUTH', pick([...words, String(draw())]))],
    [3, () => json('NEG-MSG', name(), pick(['61', '6100000200', '62', 'zz', id(), any()]))],
    [2, () => json('NEG-ERR', name(), any())],
    [1, () => '['.repeat(Math.floor(draw() * 5000))],
    [1, () => `["EVENT","n1",{"tags":[${'[],'.repeat(3000)}[]]}]`],
    [0.2, () => json('EVENT', 'n1', { ...pick(genuine), content: huge })],
    [0.2, () => json('NOTICE', huge)],
    [0.2, () => `["EVENT","n1",${'[0],'.repeat(40_000)}0]`],
    [1, () => undefined],
  ];
  const sum = kinds.reduce((total, [weight]) => total + weight, 0);
  return () => {
    let at = draw() * sum;
    for (const [weight, make] of kinds) {
      at -= weight;
      if (at < 0) return make();
    }
    return undefined;
  };
}

async function flood(messages: number, quota = defaultQuota) {
  const watched = watchCollections();
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const set = createRelaySet(URLS, {
    openSocket: sockets.openSocket,
    clock,
    crypto: nativeCrypto,
    quota,
    retry: { maxAttempts: 3, initialMs: 100, maxMs: 1000, multiplier: 2, jitter: 'none' },
    reconciles: () => true,
  });
  const heard = new Set<string>();
  const handlers = { onEvent: ({ content }: SignedEvent) => void heard.add(content) };
  set.subscribe([{ kinds: [1000] }], handlers);
  set.subscribe([{ kinds: [1000], '#t': ['x'] }, { ids: ['a'.repeat(64)] }], handlers, {
    longLived: true,
  });
  await clock.advance(0);
  const socketOf = (url: string) => sockets.attempts.findLast((socket) => socket.url === url)!;
  const harm = createHarm(createDraw(SEED));
  const sent: { content: string; url: string }[] = [];
  for (let i = 0; i < messages; i++) {
    const text = harm();
    socketOf(URLS[0]!).hearText(text, text === undefined ? 5 : text.length);
    if (i % GENUINE_EVERY === 0) {
      const url = URLS[(i / GENUINE_EVERY) % 2]!;
      const event = eventOf(`genuine ${i}`);
      sent.push({ content: event.content, url });
      socketOf(url).hear('EVENT', 'n1', event);
    }
    if (i % 1000 === 0) await clock.advance(20_000);
  }
  const said = sockets.attempts.reduce((sum, socket) => sum + socket.sent.length, 0);
  const status = set.status();
  const entries = [...watched.sizes().values()].reduce((sum, size) => sum + size, 0);
  watched.restore();
  await set.close();
  await clock.advance(100_000);
  return {
    heard,
    sent,
    said,
    status,
    pending: clock.pending,
    connections: sockets.attempts.length,
    entries,
  };
}

test('a relay whose every message is read delivers what is genuine, and is answered little', {
  timeout: 120_000,
}, async () => {
  const without = Number.POSITIVE_INFINITY;
  const { heard, sent, said, status, pending, connections, entries } = await flood(MESSAGES, {
    ...defaultQuota,
    faultsPerMinute: without,
    bytesPerMinute: without,
  });
  expect(sent.filter(({ content }) => !heard.has(content))).toEqual([]);
  expect(status[0]).toMatchObject({ state: 'open', opens: 1 });
  expect(status[0]!.garbage).toBeGreaterThan(10_000);
  expect(status[0]!.refused).toBeGreaterThan(2000);
  expect(said).toBeLessThan(500);
  expect([pending, connections]).toEqual([0, 2]);
  expect(entries).toBeLessThan(MOST_ENTRIES);
});

test('with quotas that relay is cut off again and again, and the honest one is heard', async () => {
  const { heard, sent, status, pending } = await flood(MESSAGES / 4);
  const honest = sent.filter(({ url }) => url === URLS[1]);
  expect(honest.filter(({ content }) => !heard.has(content))).toEqual([]);
  expect(status[0]!.opens).toBeGreaterThan(3);
  expect(status[0]!.framesIn).toBeLessThan(MESSAGES / 16);
  expect(status[1]).toMatchObject({ state: 'open', opens: 1 });
  expect(pending).toBe(0);
}, 60_000);
