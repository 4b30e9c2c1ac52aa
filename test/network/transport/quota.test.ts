/** Quotas of relays and authors: memory is bounded, and a relay beyond its quota is disconnected. */

import { toHex } from 'nostrain/base';
import {
  createRelaySet,
  defaultQuota,
  Handed,
  Inbox,
  type RelaySetOptions,
  type SignedEvent,
  type SubscribeOptions,
} from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { describe, expect, test } from 'vitest';
import { REMEMBERED, REMEMBERED_SIGNATURES } from '../../../src/network/transport/inbox.ts';
import { AuthorQuota } from '../../../src/network/transport/rates.ts';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf, forgedTwin, signerOf } from '../../support/signers.ts';

const filter = { kinds: [1000] };

async function listen(options: Partial<RelaySetOptions> = {}, subscribing: SubscribeOptions = {}) {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const set = createRelaySet(['ws://a.test', 'ws://b.test'], {
    openSocket: sockets.openSocket,
    clock,
    crypto: nativeCrypto,
    retry: { maxAttempts: 3, initialMs: 100, maxMs: 1000, multiplier: 2, jitter: 'none' },
    ...options,
  });
  const heard: SignedEvent[] = [];
  const onEvent = (event: SignedEvent) => void heard.push(event);
  set.subscribe([filter], { onEvent }, subscribing);
  await clock.advance(0);
  const [a, b] = sockets.attempts;
  const states = () => set.status().map(({ state }) => state);
  return { clock, sockets, set, heard, states, a: a!, b: b! };
}

describe('a relay that goes too far loses its connection for a while', () => {
  const twin = forgedTwin(eventOf('x'));

  test('with bad signatures; others are still heard', async () => {
    const { clock, sockets, set, heard, states, a, b } = await listen();
    for (let i = 0; i < 101; i++) a.hear('EVENT', 'n1', twin);
    expect(states()).toEqual(['waiting', 'open']);
    a.hear('EVENT', 'n1', eventOf('too late'));
    b.hear('EVENT', 'n1', eventOf('from b'));
    expect(heard.map(({ content }) => content)).toEqual(['from b']);
    expect(await set.publish(eventOf('out'), { only: ['ws://a.test'] })).toMatchObject([
      { status: 'unreachable', message: /bad messages/ },
    ]);
    expect(set.status()[0]!.lastError).toBe(
      'sent more than 100 bad messages or events in a minute',
    );
    await clock.advance(59_000);
    expect(sockets.attempts).toHaveLength(2);
    await clock.advance(1000);
    expect(states()).toEqual(['open', 'open']);
    sockets.latest().hear('EVENT', 'n1', eventOf('back'));
    expect(heard).toHaveLength(2);
    await set.close();
  });

  test('with garbage, or with more bytes than anyone can read', async () => {
    const { clock, set, states, a, b } = await listen({
      quota: { ...defaultQuota, bytesPerMinute: 1_000_000 },
    });
    for (let i = 0; i < 101; i++) a.hearText('{');
    for (let i = 0; i < 62; i++) b.hear('NOTICE', 'x'); // each counts as 16 KiB
    expect(states()).toEqual(['waiting', 'waiting']);
    await clock.advance(0);
    expect(set.status()[1]!.lastError).toBe('sent more than 1000000 bytes in a minute');
    await set.close();
  });

  test('counted anew every minute', async () => {
    const { clock, set, states, a } = await listen();
    for (let minute = 0; minute < 3; minute++) {
      for (let i = 0; i < 100; i++) a.hear('EVENT', 'n1', twin);
      await clock.advance(60_000);
    }
    expect(states()).toEqual(['open', 'open']);
    await set.close();
  });

  test('not for what other relays let through: too many tags, half a character, other kinds', async () => {
    const { set, states, a } = await listen();
    const tags = Array.from({ length: 2001 }, () => ['t']);
    for (let i = 0; i < 101; i++) {
      a.hear('EVENT', 'n1', { ...twin, tags });
      a.hear('EVENT', 'n1', { ...twin, content: '\ud800' });
      a.hear('EVENT', 'n1', { ...twin, kind: 1 });
    }
    expect(states()).toEqual(['open', 'open']);
    expect(set.status()[0]).toMatchObject({ refused: 202, strays: 101 });
    await set.close();
  });
});

describe('an author', () => {
  const event = (author: number, n: number) =>
    signerOf(author).sign({ kind: 1000, created_at: n, tags: [], content: '' });

  test('is not heard beyond the quota of a subscription, and later again', async () => {
    const { clock, set, heard, a, b } = await listen({}, { maxPerAuthor: 3 });
    for (let n = 0; n < 5; n++) (n % 2 ? a : b).hear('EVENT', 'n1', event(1, n));
    a.hear('EVENT', 'n1', event(1, 0)); // known: no more
    a.hear('EVENT', 'n1', event(2, 0));
    expect(heard).toHaveLength(4);
    expect(set.status().map(({ surplus }) => surplus)).toEqual([1, 1]);
    await clock.advance(600_000);
    a.hear('EVENT', 'n1', event(1, 3));
    expect(heard).toHaveLength(5);
    await set.close();
  });

  test('is not silenced by forgeries in its name', async () => {
    const { set, heard, a } = await listen({}, { maxPerAuthor: 3 });
    for (let n = 0; n < 50; n++) a.hear('EVENT', 'n1', forgedTwin(event(1, n)));
    a.hear('EVENT', 'n1', event(1, 99));
    expect(heard).toHaveLength(1);
    await set.close();
  });

  test('is heard again with an event of long ago where a subscription remembers minutes, and it counts; one sent again and again is checked once', async () => {
    const { schnorr, sha256Text } = nativeCrypto;
    let checks = 0;
    const verify: typeof schnorr.verify = (...signed) => {
      checks++;
      return schnorr.verify(...signed);
    };
    const crypto = { sha256Text, schnorr: { ...schnorr, verify } };
    const subscribing = { longLived: true, maxPerAuthor: 3 };
    const { clock, set, heard, a, b } = await listen({ crypto }, subscribing);
    const [old, others] = [event(1, 0), (n: number) => event(2 + n, n)];
    let n = 0;
    const minutes = async (count: number, resends: boolean) => {
      for (let i = 0; i < count; i++) {
        a.hear('EVENT', 'n1', others(n++));
        for (const relay of resends ? [a, b] : []) relay.hear('EVENT', 'n1', old);
        await clock.advance(60_000);
      }
    };
    await minutes(30, true);
    expect([heard.length, checks]).toEqual([31, 31]);
    await minutes(12, false);
    a.hear('EVENT', 'n1', old);
    b.hear('EVENT', 'n1', old);
    expect([heard.length, checks]).toEqual([44, 44]);
    for (let more = 1; more < 4; more++) a.hear('EVENT', 'n1', event(1, more));
    expect(set.status()[0]!.surplus).toBe(1);
    await set.close();
  });

  test('is one of a bounded number that is counted', () => {
    const authors = new AuthorQuota(1, createManualClock());
    for (let i = 0; i < 20_000; i++) authors.count(`${i}`);
    expect(authors.size).toBeLessThanOrEqual(4096);
    expect([authors.allows('19999'), authors.allows('0')]).toEqual([false, true]);
  });
});

test('100,000 distinct events of as many authors are remembered up to a bound', () => {
  // hashes and signatures are not what is tested here: each event gets the digest that its id says
  const digest = new Uint8Array(32);
  const schnorr = { ...nativeCrypto.schnorr, verify: () => true };
  const inbox = new Inbox({ sha256Text: () => digest, schnorr }, createManualClock());
  const handed = new Handed(10, createManualClock());
  const frameOf = (i: number) => {
    new DataView(digest.buffer).setUint32(0, i);
    const id = toHex(digest);
    const event = { ...eventParts, id, pubkey: id, sig: id + id };
    return { type: 'event', subscription: 'n1', event, isPlain: true } as const;
  };
  const eventParts = { kind: 1000, created_at: 0, tags: [], content: 'x'.repeat(500) };
  for (let i = 0; i < 100_000; i++) {
    const { verdict } = inbox.receive(frameOf(i), [filter], handed);
    if (verdict !== 'new') throw new Error(verdict);
  }
  expect(inbox.size).toBeLessThanOrEqual(REMEMBERED_SIGNATURES);
  expect(handed.seen.size).toBeLessThanOrEqual(REMEMBERED);
  expect(handed.authors.size).toBeLessThanOrEqual(4096);
});
