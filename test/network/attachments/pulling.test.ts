/** Payloads in chunks over real relays: sent, stored by some relays, and pulled from those that have them. */

import { systemClock } from 'nostrain/base';
import { chunk } from 'nostrain/kinds';
import {
  Attachments,
  buildManifest,
  createRelaySet,
  cutParts,
  type EventDraft,
  type Filter,
  type Manifest,
  planChunks,
  type RelaySet,
  type SignedEvent,
  type SubscriptionHandlers,
  sendChunks,
  toManifest,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { createKeeper } from '../../support/keeper.ts';
import { signerOf } from '../../support/signers.ts';

const SIZE = 45_056;
const me = signerOf(1);
const createdAt = Math.floor(Date.now() / 1000);
const lifetime = { createdAt, expiresAt: createdAt + 3600 };
const payload = Uint8Array.from({ length: 5 * SIZE + 1000 }, (_, i) => (i * 31) ^ (i >>> 9));
const drafts = (bytes = payload): readonly EventDraft[] => {
  const plan = planChunks(bytes, lifetime);
  return Array.from({ length: plan.count }, (_, index) => plan.draft(index));
};
const keyOf = ({ tags }: EventDraft) => tags.find(([name]) => name === 'c')![1]!;

const keep = createKeeper();

const startRelays = (...options: readonly RelayOptions[]): Promise<readonly Relay[]> =>
  Promise.all(options.map(async (each) => keep(await createRelay(each))));

async function connect(relays: readonly Relay[], read?: number): Promise<RelaySet> {
  const options =
    read === undefined ? {} : { readRelays: (names: readonly string[]) => [names[read]!] };
  const set = createRelaySet(
    relays.map(({ url }) => url),
    { openSocket, clock: systemClock, crypto: nativeCrypto, ...options },
  );
  await keep(set).ready();
  return set;
}

function manifestOf(bytes = payload, erasure?: { data: number; parity: number }): Manifest {
  const own = { run: 'r', round: 0, base: 'ab'.repeat(32), codec: 'nstr', examples: 1, steps: 1 };
  const { draft } = buildManifest(own, bytes, { ...lifetime, erasure });
  const context = { run: 'r', round: 0, base: own.base };
  const limits = { maxPayloadBytes: 1e9, nowSeconds: createdAt };
  const judged = toManifest(me.sign(draft), { ...context, ...limits });
  if (!judged.ok) throw new Error(judged.rejection.detail);
  return judged.value;
}

const startPuller = (relays: RelaySet) =>
  keep(new Attachments({ relays, clock: systemClock, sha256: nativeSha256 }));

const sending = (relays: RelaySet) => ({
  relays,
  sign: (draft: EventDraft) => me.sign(draft),
  sha256: nativeSha256,
  lifetime,
  signal: new AbortController().signal,
});
const send = (relays: RelaySet, parts: readonly Uint8Array[], need = 1) =>
  sendChunks(parts, need, sending(relays));

test('a small one goes to all relays, a large one to those that its author reads, and who reads others finds both', async () => {
  const relays = await startRelays({}, {}, {});
  const author = await connect(relays, 0);
  const reader = await connect(relays, 2);
  const large = Uint8Array.from({ length: 7 * SIZE }, (_, i) => (i * 37) ^ (i >>> 8));
  const held = async () =>
    Promise.all(
      author.relays.map(async (relay) => {
        const asked = { only: [relay], waitMs: 5000 };
        return (await author.query([{ kinds: [chunk.kind] }], asked)).events.length;
      }),
    );
  const publish = async (content: string, bytes: Uint8Array) => {
    const event = me.sign({ kind: 1, created_at: createdAt, tags: [], content });
    const { settled } = startPuller(author).publish(event, [{ payload: bytes }], sending(author));
    const { accepted } = await settled;
    const found = await reader.query([{ ids: [event.id] }], { waitMs: 5000 });
    return { homes: accepted.length, isRead: found.events.length === 1 };
  };
  expect(await publish('small', payload)).toEqual({ homes: 3, isRead: true });
  expect(await held()).toEqual([6, 6, 6]);
  expect(await publish('large', large)).toEqual({ homes: 1, isRead: true });
  expect(await held()).toEqual([13, 6, 6]);
  for (const bytes of [payload, large]) {
    const found = await startPuller(reader).pull(manifestOf(bytes)).done;
    expect(Buffer.compare(found!.payload, bytes)).toBe(0);
  }
});

test('comes together from relays that hold half of it each, some of it later', async () => {
  const relays = await startRelays({}, { strict: 'strfry' });
  const set = await connect(relays);
  const events = drafts().map((draft) => me.sign(draft));
  const put = (event: SignedEvent, i: number) => set.publish(event, { only: [relays[i % 2]!.url] });
  await Promise.all(events.slice(0, 4).map(put));
  const { done, progress } = startPuller(await connect(relays)).pull(manifestOf());
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(progress()).toEqual({ have: 4, of: 6 });
  await Promise.all(events.slice(4).map((event, i) => put(event, i)));
  const found = await done;
  expect(Buffer.compare(found!.payload, payload)).toBe(0);
  expect(found!.eventBytes).toBe(
    events.reduce((sum, event) => sum + JSON.stringify(event).length, 0),
  );
});

test("others' events under the same keys do not keep the genuine ones away", async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  const other = Uint8Array.from(payload, (byte) => byte ^ 1);
  const genuine = drafts();
  for (const draft of genuine) await set.publish(me.sign(draft));
  // newer, and so served first
  for (const [i, draft] of drafts(other).entries()) {
    const tags = draft.tags.map((tag) => (tag[0] === 'c' ? ['c', keyOf(genuine[i]!)] : tag));
    for (const key of [2, 3, 4]) {
      await set.publish(signerOf(key).sign({ ...draft, tags, created_at: createdAt + key }));
    }
  }
  const { done } = startPuller(await connect(relays)).pull(manifestOf());
  expect(Buffer.compare((await done)!.payload, payload)).toBe(0);
});

test('one that is given up leaves the others alone', async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  const other = Uint8Array.from(payload, (byte) => byte ^ 1);
  for (const draft of drafts()) await set.publish(me.sign(draft));
  const puller = startPuller(await connect(relays));
  const [absent, here] = [puller.pull(manifestOf(other)), puller.pull(manifestOf())];
  absent.stop();
  expect(await absent.done).toBeUndefined();
  expect(Buffer.compare((await here.done)!.payload, payload)).toBe(0);
});

test('is served by anybody when its author’s events are gone', async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  for (const draft of drafts()) await set.publish(signerOf(7).sign(draft));
  const { done } = startPuller(await connect(relays)).pull(manifestOf());
  expect(Buffer.compare((await done)!.payload, payload)).toBe(0);
});

test.each([0, 1, 2])('striped 2/3, any two relays are enough: without relay %i', async (gone) => {
  const relays = await startRelays({}, {}, {});
  const erasure = { data: 2, parity: 1 };
  const set = await connect(relays);
  const { enough, deliveries } = send(set, cutParts(payload, erasure), 2);
  expect(await enough).toBe(true);
  expect(await Promise.all(deliveries)).toEqual(
    relays.map(({ url }) => ({ relay: url, taken: 3, of: 3, message: '', isTemporary: false })),
  );
  await relays[gone]!.close();
  const rest = relays.filter((_, i) => i !== gone);
  const { done } = startPuller(await connect(rest)).pull(manifestOf(payload, erasure));
  expect(Buffer.compare((await done)!.payload, payload)).toBe(0);
});

test('what a relay lacks is named when the time is over', async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  for (const draft of drafts().slice(1)) await set.publish(me.sign(draft));
  const puller = startPuller(await connect(relays));
  const { done, progress } = puller.pull(manifestOf());
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(progress()).toEqual({ have: 5, of: 6 });
  puller.close();
  expect(await done).toBeUndefined();
});

test('sending says what each relay took, and whether together it is enough', async () => {
  const relays = await startRelays({ maxEventBytes: 10_000 }, {});
  const set = await connect(relays);
  const one = send(set, [payload]);
  expect(await one.enough).toBe(true);
  const [small, large] = await Promise.all(one.deliveries);
  expect(large).toMatchObject({ taken: 6, of: 6 });
  expect(small).toMatchObject({ taken: 1, of: 6 }); // the last one is small
  expect(small!.message).toMatch(/too large/i);

  const alone = send(await connect(relays.slice(0, 1)), [payload]);
  expect(await alone.enough).toBe(false);
});

test('several payloads are pulled side by side, one that never comes does not hold up the others', async () => {
  const relays = await startRelays({}, {});
  const set = await connect(relays);
  const missing = Uint8Array.from(payload, (byte) => byte ^ 7);
  const puller = startPuller(await connect(relays));
  const never = puller.pull(manifestOf(missing));
  for (const draft of drafts()) await set.publish(me.sign(draft));
  const { done } = puller.pull(manifestOf());
  expect(Buffer.compare((await done)!.payload, payload)).toBe(0);
  expect(never.progress()).toEqual({ have: 0, of: 6 });
});

test('a manifest that names other bytes than its chunks have brings nothing', async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  const erasure = { data: 1, parity: 1 };
  await send(set, cutParts(payload, erasure).slice(0, 1)).enough;
  const lying = manifestOf(payload, erasure);
  const { done } = startPuller(await connect(relays)).pull({ ...lying, root: 'cd'.repeat(32) });
  expect(await done).toBeUndefined();
});

test('one that gets nothing more for a while is given up, one of a round that is over at once', async () => {
  const relays = await startRelays({});
  const set = await connect(relays);
  for (const draft of drafts().slice(1)) await set.publish(me.sign(draft));
  const puller = startPuller(await connect(relays));
  const idle = puller.pull(manifestOf(), { idleMs: 600 });
  expect(await idle.done).toBeUndefined();
  expect(idle.progress()).toEqual({ have: 5, of: 6 });
  const round = new AbortController();
  const [over, other] = [puller.pull(manifestOf(), round), puller.pull(manifestOf())];
  round.abort();
  expect(await over.done).toBeUndefined();
  expect(await puller.pull(manifestOf(), round).done).toBeUndefined();
  await set.publish(me.sign(drafts()[0]!));
  expect(Buffer.compare((await other.done)!.payload, payload)).toBe(0);
});

test('attack: an author who names many missing payloads takes no more turns than one who names one', async () => {
  const asked: (string | undefined)[] = [];
  const relays = {
    relays: ['fake'],
    status: () => [{ relay: 'fake', state: 'open' }],
    subscribe([filter]: readonly Filter[], { onCaughtUp }: SubscriptionHandlers) {
      asked.push(filter?.authors?.[0]);
      setTimeout(() => onCaughtUp?.('fake'));
      return { caughtUp: false, close: () => undefined };
    },
  };
  const puller = startPuller(relays as unknown as RelaySet);
  for (let i = 0; i < 40; i++) {
    const absent = payload.map((byte) => byte ^ (i + 2));
    puller.pull({ ...manifestOf(absent), worker: 'hostile' });
  }
  puller.pull({ ...manifestOf(), worker: 'honest' });
  while (asked.length < 41) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(asked.slice(0, 5)).toContain('honest');
});
