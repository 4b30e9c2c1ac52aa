/** What the transport and a run need of every relay, whoever wrote it. How relays differ is in `behavior.ts`. */

import { systemClock } from 'nostrain/base';
import {
  createRelaySet,
  type EventDraft,
  type Filter,
  type RelaySet,
  type SignedEvent,
  type Signer,
} from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { afterEach, describe, expect, it } from 'vitest';
import { openLine } from '../support/cuttable-line.ts';
import { forgedTwin, signerOf } from '../support/signers.ts';
import {
  divergencesOf,
  largeLayout,
  roundsOf,
  smallLayout,
  startMember,
} from '../support/swarm.ts';
import type { RelayUnderTest } from './relay-under-test.ts';

const [alice, bob] = [signerOf(1), signerOf(2)];
const REGULAR = [7810, 7811];
const ADDRESSABLE = [33_333, 33_334, 33_335, 37_811];
const EPHEMERAL = 27_810;
const WAIT = { timeout: 50_000, interval: 20 };

const opened: { close(): Promise<unknown> }[] = [];
const now = () => Math.floor(Date.now() / 1000);
let counted = 0;
/** A scope nobody used before. */
const newScope = () => `scope-${Date.now()}-${++counted}`;

function connect(...urls: readonly string[]): RelaySet {
  const set = createRelaySet(urls, {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    publishTimeoutMs: 1500,
    retry: { maxAttempts: 2, initialMs: 20, maxMs: 100, multiplier: 2, jitter: 'none' },
    reconnectMaxMs: 100,
  });
  opened.push(set);
  return set;
}

/** Everything a set hears for some filters, in order of arrival. */
function listen(set: RelaySet, ...filters: readonly Filter[]) {
  const heard: SignedEvent[] = [];
  const subscription = set.subscribe(filters, { onEvent: (event) => void heard.push(event) });
  return {
    heard,
    caughtUp: () => expect.poll(() => subscription.caughtUp, WAIT).toBe(true),
    hears: (...events: readonly SignedEvent[]) =>
      expect
        .poll(() => heard.map(({ id }) => id).toSorted(), WAIT)
        .toEqual(events.map(({ id }) => id).toSorted()),
    close: () => subscription.close(),
  };
}

const sign = (scope: string, more: Partial<EventDraft> = {}, signer: Signer = alice) => {
  const { tags = [], ...rest } = more;
  const own = [['s', scope], ['t', 'nostrain'], ...tags]; // biome-ignore format: tags in a row
  const content = `event ${++counted}`;
  return signer.sign({ kind: 7811, created_at: now(), content, ...rest, tags: own });
};

/** Publishes to the set's only relay; the status it ended with. */
const put = async (set: RelaySet, event: SignedEvent) => (await set.publish(event))[0]!;

async function putAll(set: RelaySet, ...events: readonly SignedEvent[]): Promise<void> {
  for (const event of events) expect(await put(set, event)).toMatchObject({ status: 'accepted' });
}

/** Stored events, as a worker that has just come asks for them. */
async function stored(url: string, ...filters: readonly Filter[]): Promise<readonly SignedEvent[]> {
  const set = connect(url);
  const ear = listen(set, ...filters);
  await ear.caughtUp();
  await set.close();
  return ear.heard;
}

/** Runs the suite against one relay. */
export function testTransport({ name, start, tooLarge, subscriptions }: RelayUnderTest): void {
  const relay = async (): Promise<string> => {
    const one = await start();
    opened.push(one);
    return one.url;
  };
  afterEach(async () => {
    for (const thing of opened.splice(0).reverse()) await thing.close();
  });

  describe(`transport over ${name}`, () => {
    it('finds an event by id, kind, author and tags, and nothing else', async () => {
      const [url, scope] = [await relay(), newScope()];
      const wanted = sign(scope, { tags: [['c', `${scope}/0`]] });
      const other = sign(newScope(), { kind: 7810 }, bob);
      await putAll(connect(url), wanted, other);
      const filters: readonly Filter[] = [
        { ids: [wanted.id] },
        { kinds: [7811], '#s': [scope] },
        { kinds: [7811], '#c': [`${scope}/0`] },
        { authors: [alice.publicKey], '#s': [scope] },
        { kinds: [7811], '#s': [scope], '#c': [`${scope}/0`] },
      ];
      for (const filter of filters) expect(await stored(url, filter)).toEqual([wanted]);
      expect(await stored(url, { kinds: [7811], '#s': [`${scope}-none`] })).toEqual([]);
    });

    it('finds one of 64 keys in one list, and every one of them', async () => {
      const [url, scope] = [await relay(), newScope()];
      const keys = Array.from({ length: 64 }, (_, i) => `${scope}/${i}`);
      const chunks = [0, 31, 63].map((i) => sign(scope, { tags: [['c', keys[i]!]] }));
      await putAll(connect(url), ...chunks);
      const found = await stored(url, { kinds: [7811], '#c': keys });
      expect(found.map(({ id }) => id).toSorted()).toEqual(chunks.map(({ id }) => id).toSorted());
    });

    it('delivers live what each subscription asked for, once', async () => {
      const [url, scopes] = [await relay(), [newScope(), newScope()] as const];
      const receiver = connect(url);
      const ears = scopes.map((scope) => listen(receiver, { kinds: REGULAR, '#s': [scope] }));
      const both = listen(receiver, { kinds: [7811], '#s': scopes });
      for (const ear of [...ears, both]) await ear.caughtUp();
      const [first, second] = [sign(scopes[0]), sign(scopes[1], { kind: 7810 })];
      await putAll(connect(url), first, second);
      await ears[0]!.hears(first);
      await ears[1]!.hears(second);
      await both.hears(first);
    });

    it('sends stored events before it says that it has', async () => {
      const [url, scope] = [await relay(), newScope()];
      const events = Array.from({ length: 30 }, (_, i) => sign(scope, { created_at: now() - i }));
      await putAll(connect(url), ...events);
      expect(await stored(url, { kinds: [7811], '#s': [scope], limit: 500 })).toHaveLength(30);
    });

    it('keeps every regular event of a key, and the newest of an address in any order', async () => {
      const [url, scope] = [await relay(), newScope()];
      const set = connect(url);
      const regular = REGULAR.flatMap((kind) => [sign(scope, { kind }), sign(scope, { kind })]);
      await putAll(set, ...regular);
      const kept = await stored(url, { kinds: REGULAR, '#s': [scope] });
      expect(kept.map(({ id }) => id).toSorted()).toEqual(regular.map(({ id }) => id).toSorted());
      for (const kind of ADDRESSABLE) {
        const at = (ago: number) =>
          sign(scope, { kind, created_at: now() - ago, tags: [['d', scope]] });
        const [old, newest, between] = [at(30), at(10), at(20)];
        await putAll(set, old, newest);
        await put(set, between); // refused, dropped or kept beside: the newest is there
        const served = await stored(url, { kinds: [kind], '#s': [scope] });
        expect(served).toContainEqual(newest);
        expect(served).not.toContainEqual(old);
        const elsewhere = sign(scope, { kind, tags: [['d', `${scope}/2`]] });
        await putAll(set, elsewhere);
        expect(await stored(url, { ids: [newest.id, elsewhere.id] })).toHaveLength(2);
      }
    });

    it('carries an event of 60 kB unchanged', async () => {
      const [url, scope] = [await relay(), newScope()];
      const event = sign(scope, { content: 'A'.repeat(60_076), tags: [['c', `${scope}/0`]] });
      await putAll(connect(url), event);
      expect(await stored(url, { ids: [event.id] })).toEqual([event]);
    });

    it('stays usable after an event it finds too large', async () => {
      const [url, scope] = [await relay(), newScope()];
      const set = connect(url);
      const large = sign(scope, { content: 'A'.repeat(tooLarge ?? 60_000) });
      const outcome = await put(set, large);
      if (tooLarge !== undefined) expect(outcome.status).not.toBe('accepted');
      if (tooLarge !== undefined) expect(outcome.message).not.toBe('');
      const small = sign(scope);
      await expect.poll(async () => (await put(set, small)).status, WAIT).toBe('accepted');
      expect(await stored(url, { ids: [small.id] })).toEqual([small]);
    });

    it('never passes on what is forged, altered or unsigned', async () => {
      const [url, scope] = [await relay(), newScope()];
      const [set, receiver] = [connect(url), connect(url)];
      const ear = listen(receiver, { kinds: [7811], '#s': [scope] });
      await ear.caughtUp();
      const altered = { ...sign(scope), content: 'altered' };
      const unsigned = { ...sign(scope), sig: '' };
      for (const event of [forgedTwin(sign(scope)), altered, unsigned]) {
        expect((await put(set, event)).status).not.toBe('accepted');
      }
      const genuine = sign(scope);
      await putAll(connect(url), genuine);
      await ear.hears(genuine);
      expect(await stored(url, { kinds: [7811], '#s': [scope] })).toEqual([genuine]);
    });

    it('takes events that expire later, and the same event again', async () => {
      const [url, scope] = [await relay(), newScope()];
      const set = connect(url);
      const ear = listen(set, { kinds: [7811], '#s': [scope] });
      const event = sign(scope, { tags: [['expiration', `${now() + 3600}`]] });
      await putAll(set, event, event);
      await putAll(connect(url), event);
      await ear.hears(event);
      expect(await stored(url, { kinds: [7811], '#s': [scope] })).toEqual([event]);
    });

    it('loses nothing when the connection was gone for a while', async () => {
      const [url, scope] = [await relay(), newScope()];
      const line = await openLine(url);
      opened.push(line);
      const [sender, receiver] = [connect(url), connect(line.url)];
      const ear = listen(receiver, { kinds: REGULAR, '#s': [scope] });
      await ear.caughtUp();
      const [before, meanwhile, after] = [sign(scope), sign(scope), sign(scope, { kind: 7810 })];
      await putAll(sender, before);
      await ear.hears(before);
      line.cut();
      await putAll(sender, meanwhile);
      line.mend();
      await ear.hears(before, meanwhile);
      await putAll(sender, after);
      await ear.hears(before, meanwhile, after);
      await putAll(receiver, sign(scope, { kind: 7810 }));
      expect(receiver.status()[0]!.opens).toBeGreaterThan(1);
    });

    it('outlives a subscription that the relay does not serve', async () => {
      const [url, scope] = [await relay(), newScope()];
      const set = connect(url);
      const ear = listen(set, { kinds: [7811], '#s': [scope] });
      await ear.caughtUp();
      const refused = listen(set, { ids: ['not an id'] }, { kinds: [-1], limit: -1 });
      const event = sign(scope);
      await putAll(set, event);
      await ear.hears(event);
      expect(refused.heard).toEqual([]);
    });

    it('delivers ephemeral events to whoever listens', async () => {
      const [url, scope] = [await relay(), newScope()];
      const ear = listen(connect(url), { kinds: [EPHEMERAL], '#s': [scope] });
      await ear.caughtUp();
      const event = sign(scope, { kind: EPHEMERAL });
      await put(connect(url), event); // one relay never answers
      await ear.hears(event);
    });

    it('serves the subscriptions of one connection side by side', async () => {
      const [url, base] = [await relay(), newScope()];
      const most = Math.min(20, subscriptions);
      const receiver = connect(url);
      const scopes = Array.from({ length: most }, (_, i) => `${base}/${i}`);
      const ears = scopes.map((scope) => listen(receiver, { kinds: [7811], '#s': [scope] }));
      for (const ear of ears) await ear.caughtUp();
      const events = scopes.map((scope) => sign(scope));
      await putAll(connect(url), ...events);
      for (const [i, ear] of ears.entries()) await ear.hears(events[i]!);
      for (const ear of ears) ear.close();
      const again = listen(receiver, { kinds: [7811], '#s': scopes });
      await again.hears(...events); // closing made room
    });

    it('takes what many send at once and gives all of it to all', async () => {
      const [url, scope] = [await relay(), newScope()];
      const sets = [alice, bob, signerOf(3), signerOf(4)].map((signer) => ({
        signer,
        set: connect(url),
      }));
      const ears = sets.map(({ set }) => listen(set, { kinds: REGULAR, '#s': [scope] }));
      for (const ear of ears) await ear.caughtUp();
      const events = sets.map(({ signer }) =>
        Array.from({ length: 15 }, () =>
          sign(scope, { content: 'A'.repeat(20_000 + counted++) }, signer),
        ),
      );
      await Promise.all(
        sets.map(({ set }, i) => Promise.all(events[i]!.map((event) => putAll(set, event)))),
      );
      for (const ear of ears) await ear.hears(...events.flat());
    });

    it('lets nobody delete the event of another', async () => {
      const [url, scope] = [await relay(), newScope()];
      const set = connect(url);
      const event = sign(scope);
      await putAll(set, event);
      await put(set, sign(scope, { kind: 5, tags: [['e', event.id], ['k', '7811']] }, bob)); // biome-ignore format: one event
      expect(await stored(url, { kinds: [7811], '#s': [scope] })).toEqual([event]);
    });

    it.each([
      ['in single events', smallLayout],
      ['in chunks', largeLayout],
    ])(
      'carries a run %s: two workers count each other in every round and agree',
      async (_, layout) => {
        const relays = [await relay()];
        const sync = { strategy: 'strict', workers: 2 } as const;
        const plan = { run: newScope(), rounds: 3, sync, waitFor: 2 };
        const members = [0, 1].map((index) => startMember({ index, relays, plan, layout }));
        for (const member of members) opened.push({ close: async () => member.stop() });
        await Promise.all(members.map(({ finished }) => finished));
        const ids = members.map(({ id }) => id).toSorted();
        for (const member of members) {
          expect(roundsOf(member).map(({ accepted }) => accepted)).toEqual([ids, ids, ids]);
          expect(divergencesOf(member)).toEqual([]);
        }
      },
    );
  });
}
