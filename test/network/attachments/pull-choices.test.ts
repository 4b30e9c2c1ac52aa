/** Which chunks a pull requests from which relay, and when: with a test clock and relays in memory. */
import fc from 'fast-check';
import {
  Attachments,
  cutParts,
  type Filter,
  planChunks,
  type RelaySet,
  type SignedEvent,
  type SubscriptionHandlers,
} from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { expect, test } from 'vitest';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { createManualClock } from '../../support/manual-clock.ts';

const SIZE = 45_056;
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_003_600 };

interface ChunkRequest {
  readonly relay: string;
  readonly keys: readonly string[];
  readonly authors: readonly string[] | undefined;
  readonly atMs: number;
}

/** A payload of that many chunks, and events of all its parts by key. */
function published(chunks: number, erasure?: { readonly data: number; readonly parity: number }) {
  const payload = drawnBytes(chunks * SIZE, chunks);
  const plans = cutParts(payload, erasure).map((part) => planChunks(part, lifetime, nativeSha256));
  const events = new Map<string, SignedEvent>();
  const partOf = new Map<string, number>();
  for (const [part, { count, draft }] of plans.entries()) {
    for (let index = 0; index < count; index++) {
      const unsigned = draft(index);
      const key = unsigned.tags.find(([name]) => name === 'c')![1]!;
      events.set(key, { ...unsigned, id: key, pubkey: 'author', sig: '' } as SignedEvent);
      partOf.set(key, part);
    }
  }
  const { root, bytes } = planChunks(payload, lifetime, nativeSha256);
  const shards = erasure && plans.map((plan) => plan.root);
  const wanted = { root, bytes, worker: 'author', need: erasure?.data, shards };
  return { payload, events, partOf, wanted, keys: [...events.keys()] };
}

/** Relays that answer at once with what they have, or never; and a puller over them. */
function open(
  { events }: ReturnType<typeof published>,
  relays: Readonly<Record<string, (key: string) => boolean | 'never'>>,
) {
  const clock = createManualClock();
  const startedMs = clock.now();
  const asked: ChunkRequest[] = [];
  const names = Object.keys(relays);
  const set = {
    relays: names,
    status: () => names.map((relay) => ({ relay, state: 'open' })),
    subscribe(
      [filter]: readonly Filter[],
      { onEvent, onCaughtUp }: SubscriptionHandlers,
      { only: [relay] = [] }: { only?: readonly string[] },
    ) {
      const keys = filter!['#c']!;
      asked.push({ relay: relay!, keys, authors: filter!.authors, atMs: clock.now() - startedMs });
      const answers = keys.map((key) => [key, relays[relay!]!(key)] as const);
      if (answers.every(([, has]) => has !== 'never')) {
        queueMicrotask(() => {
          for (const [key, has] of answers) if (has) onEvent(events.get(key)!, relay!);
          onCaughtUp?.(relay!);
        });
      }
      return { caughtUp: false, close: () => undefined };
    },
  };
  const options = { relays: set as unknown as RelaySet, clock, sha256: nativeSha256 };
  return { clock, asked, puller: new Attachments(options) };
}

test('relays are asked for different chunks, at most 64 at once', async () => {
  const file = published(200);
  const { asked, puller, clock } = open(file, { a: () => 'never', b: () => 'never' });
  puller.pull(file.wanted);
  await clock.advance(1);
  const all = asked.flatMap(({ keys }) => keys);
  expect(asked[0]!.keys).toHaveLength(64);
  expect(Math.max(...asked.map(({ keys }) => keys.length))).toBe(64);
  expect(new Set(asked.map(({ relay }) => relay))).toEqual(new Set(['a', 'b']));
  expect(new Set(all).size).toBe(all.length);
  puller.close();
});

test('a chunk one relay has not got is asked of the others at once, and of it again later', async () => {
  const file = published(1);
  const { asked, puller, clock } = open(file, { a: () => false, b: () => false });
  puller.pull(file.wanted);
  await clock.advance(20);
  expect(asked.map(({ relay }) => relay)).toEqual(['a', 'b']);
  await clock.advance(380);
  expect(asked).toHaveLength(2);
  await clock.advance(400);
  expect(asked.slice(2).map(({ relay }) => relay)).toEqual(['a', 'b']);
  // the first time those of its author, the second time those of anybody
  expect(asked.map(({ authors }) => authors)).toEqual([
    ['author'],
    ['author'],
    undefined,
    undefined,
  ]);
  puller.close();
});

test('what a slow relay owes is asked of another one after two seconds', async () => {
  const file = published(8);
  const { asked, puller, clock } = open(file, { slow: () => 'never', quick: () => true });
  const { done } = puller.pull(file.wanted);
  await clock.advance(1900);
  const owed = asked.filter(({ relay }) => relay === 'slow').flatMap(({ keys }) => keys);
  const early = asked.filter(({ relay }) => relay === 'quick').flatMap(({ keys }) => keys);
  expect(owed.length).toBeGreaterThan(0);
  expect(early.filter((key) => owed.includes(key))).toEqual([]);
  await clock.advance(400);
  expect(asked.at(-1)).toMatchObject({ relay: 'quick', keys: owed });
  expect(Buffer.compare((await done)!.payload, file.payload)).toBe(0);
});

test('of shards as many as are needed, another one when a chunk is nowhere, all of them when it takes long', async () => {
  const erasure = { data: 2, parity: 1 };
  const file = published(8, erasure);
  const partsAt = (asked: readonly ChunkRequest[]) =>
    [...new Set(asked.flatMap(({ keys }) => keys.map((key) => file.partOf.get(key)!)))].sort();
  const lost = file.keys.find((key) => file.partOf.get(key) === 1)!;
  const first = open(file, { a: (key) => key !== lost });
  const { done } = first.puller.pull(file.wanted);
  expect(Buffer.compare((await done)!.payload, file.payload)).toBe(0);
  expect(partsAt(first.asked.slice(0, 1))).toEqual([0, 1]);
  expect(partsAt(first.asked)).toEqual([0, 1, 2]);

  const late = open(file, { a: () => 'never' });
  late.puller.pull(file.wanted);
  await late.clock.advance(2900);
  expect(partsAt(late.asked)).toEqual([0, 1]);
  await late.clock.advance(400);
  expect(partsAt(late.asked)).toEqual([0, 1, 2]);
  late.puller.close();
});

test('is complete when the needed parts are whole, and says how far it is', async () => {
  const file = published(4, { data: 2, parity: 1 });
  const held = new Set(file.keys.filter((key) => file.partOf.get(key) === 2));
  held.add(file.keys[0]!);
  const { puller, clock } = open(file, { a: (key) => held.has(key) });
  const { done, progress } = puller.pull(file.wanted);
  await clock.advance(100);
  expect(progress()).toEqual({ have: 3, of: 4 });
  held.add(file.keys[1]!);
  await clock.advance(2000);
  expect(Buffer.compare((await done)!.payload, file.payload)).toBe(0);
});

test('whatever holds each chunk, all come as long as some relay has them', async () => {
  const names = ['a', 'b', 'c'];
  const file = published(12);
  const holders = fc.array(fc.subarray(names, { minLength: 1 }), { minLength: 12, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(holders, async (held) => {
      const has = (name: string) => (key: string) => held[file.keys.indexOf(key)]!.includes(name);
      const relays = Object.fromEntries(names.map((name) => [name, has(name)]));
      const { puller, clock } = open(file, relays);
      const { done } = puller.pull(file.wanted);
      let isDone = false;
      void done.then(() => {
        isDone = true;
      });
      for (let ms = 0; !isDone; ms += 100) {
        expect(ms).toBeLessThan(20_000);
        await clock.advance(100);
      }
      expect(Buffer.compare((await done)!.payload, file.payload)).toBe(0);
    }),
    { numRuns: 12 },
  );
});
