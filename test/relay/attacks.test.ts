/** Attacks on a public relay; each one worked once, and is named after what it does. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import {
  createRelay,
  defaultLimits,
  finish,
  IdList,
  type Relay,
  type RelayOptions,
  reconcile,
  Store,
} from 'nostrain/relay';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { Admission, sourceOf, sourceOfRequest } from '../../relay/admission.ts';
import { isIntricate } from '../../relay/messages.ts';
import { Tombstones } from '../../relay/tombstones.ts';
import { Turns, type Work } from '../../relay/turns.ts';
import { openReader, type RawReader } from '../support/raw-reader.ts';
import { entryOf, hexOf, kept, NOW } from '../support/relay-entries.ts';
import { eventOf, signerOf } from '../support/signers.ts';

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const thing of opened.splice(0)) await thing.close();
});

async function start(options: RelayOptions = {}): Promise<Relay> {
  const relay = await createRelay({ nowMs: () => NOW * 1000, ...options });
  opened.push(relay);
  return relay;
}

async function read(relay: Relay): Promise<RawReader> {
  const reader = await openReader(relay.url);
  opened.unshift(reader);
  return reader;
}

describe('syncs (NIP-77)', () => {
  /** A range that ends at a time of 1,050 bits, with a fingerprint: 352 bytes of NEG-OPEN in all. */
  const endless = `61${'ff'.repeat(150)}7f0001${'00'.repeat(16)}`;

  test('a NEG-OPEN of 352 bytes whose bound is an endless number is refused', async () => {
    const reader = await read(await start());
    for (let i = 0; i < 3; i++) await reader.publish(eventOf(`${i}`));
    reader.say('NEG-OPEN', 'n', {}, endless);
    const refused = await reader.until((frame) => frame[0] === 'NEG-ERR');
    expect(refused[2]).toBe('invalid: number is too large');
  });

  test('a range that asks for a list of everything gets a bounded answer', () => {
    const list = IdList.of(Array.from({ length: 20_000 }, (_, i) => ({ id: hexOf(i), created_at: i }))); // biome-ignore format: one list
    expect(finish(reconcile(list, '6100000200')).length).toBeLessThan(2 * 65_000);
  });

  test.each([
    ['odd text', 'not hex'],
    ['half a byte', '610'],
    ['a million bytes', '61'.repeat(2 << 20)],
    ['ranges after the end of time', '6100000000000000'],
    ['a number instead of text', 7],
  ])('%s is refused', (_, message) => {
    expect(() => finish(reconcile(IdList.of([]), message))).toThrow(RangeError);
  });
});

describe('a full store', () => {
  const author = 1;

  test('1,000 addressable events do not push out votes', () => {
    const store = new Store({ ...defaultLimits, maxStoredEvents: 400 });
    const votes = Array.from({ length: 100 }, (_, i) => entryOf(i, i % 4));
    for (const vote of votes) store.add(vote, NOW);
    for (let i = 1000; i < 2000; i++) {
      store.add(entryOf(i, 99, { kind: 30_000, tags: [['d', `${i}`]] }), NOW);
    }
    expect(kept(store, votes)).toBe(100);
    expect(store.size).toBe(400);
  });

  test('large payloads do not push out votes', () => {
    const store = new Store({ ...defaultLimits, maxStoredBytes: 1_000_000 });
    const votes = Array.from({ length: 100 }, (_, i) => entryOf(i, i % 4));
    for (const vote of votes) store.add(vote, NOW);
    for (let i = 1000; i < 1100; i++) {
      store.add({ ...entryOf(i, 99), json: Buffer.alloc(50_000) }, NOW);
    }
    expect(kept(store, votes)).toBe(100);
  });

  test('one author does not push out another', () => {
    const store = new Store({ ...defaultLimits, maxStoredEvents: 400 });
    const votes = Array.from({ length: 100 }, (_, i) => entryOf(i, author));
    for (const vote of votes) store.add(vote, NOW);
    for (let i = 1000; i < 5000; i++) store.add(entryOf(i, 99), NOW);
    expect(kept(store, votes)).toBe(100);
  });
});

describe('tombstones', () => {
  const deletion = (author: number, tags: string[][]) => entryOf(0, author, { kind: 5, tags });

  test('names that are no ids leave no marks, and long addresses take no more room', () => {
    const tombstones = new Tombstones();
    const long = 'x'.repeat(8000);
    finish(tombstones.mark(deletion(1, [['e', long]])));
    expect(tombstones.size).toBe(0);
    finish(tombstones.mark(deletion(1, [['a', `30000:${hexOf(1)}:${long}`]])));
    expect(tombstones.covers(entryOf(9, 1, { kind: 30_000, tags: [['d', long]] }))).toBe(true);
  });
});

describe('the event loop', () => {
  const MOST = 50_000;
  let full: Relay;
  beforeAll(async () => {
    full = await createRelay({ nowMs: () => NOW * 1000, policies: [] });
    const writer = await openReader(full.url);
    const signed = eventOf('');
    for (let i = 0; i < 30_000; i++) writer.say('EVENT', { ...signed, id: hexOf(i) });
    await writer.until(() => writer.frames.length === 30_000);
    await writer.close();
  }, 240_000);
  afterAll(() => full.close());

  test.each([
    ['COUNT', ['COUNT', 'slow', ...Array.from({ length: 32 }, () => ({ since: 1 }))]],
    ['REQ', ['REQ', 'slow', ...Array.from({ length: 32 }, () => ({ since: 1, limit: 1 }))]],
    ['NEG-OPEN', ['NEG-OPEN', 'slow', {}, '61000002']],
  ])('a %s over everything lets others go first', async (_, message) => {
    const [hostile, honest] = [await read(full), await read(full)];
    const order: unknown[] = [];
    const answered = async (reader: RawReader, name: string) => {
      await reader.until((frame) => ['COUNT', 'EOSE', 'NEG-ERR', 'NEG-MSG'].includes(String(frame[0]))); // biome-ignore format: one list
      order.push(name);
    };
    hostile.say(...message);
    honest.say('REQ', 'quick', { ids: [hexOf(1)] });
    await Promise.all([answered(hostile, 'hostile'), answered(honest, 'honest')]);
    expect(order).toEqual(['honest', 'hostile']);
    expect(full.stats().mostWorkPerTurn).toBeLessThan(MOST);
  });

  test('more than a million events are not looked through for one message', async () => {
    const relay = await start({ policies: [], limits: { maxScanned: 100 } });
    const reader = await read(relay);
    for (let i = 0; i < 60; i++) await reader.publish({ ...eventOf(''), id: hexOf(i) });
    reader.say('COUNT', 'a', {}, { since: 1 });
    const closed = await reader.until((frame) => frame[0] === 'CLOSED');
    expect(closed[2]).toMatch(/match too many events to scan/);
  });

  test('of waiting accounts, the one that has used the least goes first', async () => {
    const turns = new Turns();
    const order: string[] = [];
    function* scan(name: string, steps: number): Work<void> {
      for (let i = 0; i < steps; i++) yield 10_000;
      order.push(name);
    }
    const greedy = { used: 0, subscribed: 0 };
    const all = [
      turns.run(greedy, scan('first', 5)),
      turns.run(greedy, scan('second', 5)),
      turns.run(greedy, scan('third', 5)),
      turns.run({ used: 0, subscribed: 0 }, scan('other', 5)),
    ];
    await Promise.all(all);
    expect(order[0]).toBe('other');
    expect(turns.most).toBeLessThan(MOST);
  });

  test.each([
    ['nested lists', '['.repeat(1 << 20)],
    ['empty lists', `["EVENT",[${'[],'.repeat(500_000)}[]]]`],
    ['a list of short strings', `["EVENT",{"tags":[["t"${',""'.repeat(500_000)}]]}]`],
  ])('a message of 1 MB that is %s is not parsed', (_, text) => {
    expect(isIntricate(Buffer.from(text))).toBe(true);
  });

  test('brackets and quotes inside a string do not make a message intricate', () => {
    const content = '[{"a\\\\":",,,\\"'.repeat(30_000);
    expect(isIntricate(Buffer.from(JSON.stringify(['EVENT', { content }])))).toBe(false);
  });

  test('a client that does not read the answers is disconnected', async () => {
    const reader = await read(await start());
    for (let i = 0; i < 40; i++) reader.sendRaw('['.repeat(30_000));
    expect(await reader.closed).toBe(1008);
  });

  test('a query of 2 MB is refused unread', async () => {
    const reader = await read(await start());
    reader.sendRaw(JSON.stringify(['REQ', 'big', { ids: ['x'.repeat(2 << 20)] }]));
    expect((await reader.until((frame) => frame[0] === 'CLOSED'))[2]).toMatch(/longer than/);
  });
});

describe('subscriptions', () => {
  test('of all connections are limited in total; one that leaves frees its share', async () => {
    const relay = await start({ limits: { maxSubscriptionBytesInAll: 20_000 } });
    const answer = async (reader: RawReader) => {
      reader.say('REQ', 's', { '#t': ['x'.repeat(4000)], limit: 0 });
      return (await reader.until((frame) => frame[1] === 's'))[0];
    };
    const readers = await Promise.all(Array.from({ length: 6 }, () => read(relay)));
    const answers: unknown[] = [];
    for (const reader of readers) answers.push(await answer(reader));
    expect(answers).toEqual(['EOSE', 'EOSE', 'EOSE', 'EOSE', 'CLOSED', 'CLOSED']);
    await readers[0]!.close();
    while (relay.stats().connections > 5) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await answer(await read(relay))).toBe('EOSE');
  });
});

describe('who a client says the relay is', () => {
  /** A reader whose `Host` header names another host. */
  async function readAs(relay: Relay, host: string): Promise<RawReader> {
    const claimed = new WebSocket(relay.url, { headers: { host }, perMessageDeflate: false });
    const frames: unknown[][] = [];
    claimed.on('message', (data) => frames.push(JSON.parse(String(data)) as unknown[]));
    await once(claimed, 'open');
    const until = async (fits: (frame: readonly unknown[]) => boolean) => {
      for (;;) {
        const found = frames.find(fits);
        if (found) return found;
        await once(claimed, 'message');
      }
    };
    const closed = new Promise<number>((resolve) => claimed.on('close', resolve));
    const say = (...message: readonly unknown[]) => claimed.send(JSON.stringify(message));
    const close = () => {
      claimed.terminate();
      return closed;
    };
    const publish = (event: { readonly id: string }) => {
      say('EVENT', event);
      return until((frame) => frame[0] === 'OK' && frame[1] === event.id);
    };
    const reader = { frames, say, until, publish, closed, close, sendRaw: (data: string | Uint8Array) => claimed.send(data) }; // biome-ignore format: one reader
    opened.unshift(reader);
    return reader;
  }

  test.each([
    ['with a public URL', { publicUrl: 'wss://relay.example.org' }],
    ['without one', {}],
  ])('a Host header does not make the AUTH of another relay ours, %s', async (_, options) => {
    const relay = await start({ auth: 'write', ...options });
    const reader = await readAs(relay, 'elsewhere.example');
    const [, challenge] = await reader.until((frame) => frame[0] === 'AUTH');
    const proof = (url: string) =>
      signerOf(1).sign({
        kind: 22_242,
        created_at: NOW,
        tags: [
          ['relay', url],
          ['challenge', String(challenge)],
        ],
        content: '',
      });
    const verdict = async (url: string) => {
      const event = proof(url);
      reader.say('AUTH', event);
      return (await reader.until((frame) => frame[1] === event.id))[2];
    };
    expect(await verdict('wss://elsewhere.example')).toBe(false);
    const [listens, known] = [relay.url, 'wss://relay.example.org'];
    expect(await verdict(listens)).toBe(!('publicUrl' in options));
    expect(await verdict(known)).toBe('publicUrl' in options);
  });

  test('a Host header does not make a request to vanish elsewhere one to vanish here', async () => {
    const relay = await start({ publicUrl: 'wss://relay.example.org' });
    const reader = await readAs(relay, 'elsewhere.example');
    const vanish = (url: string) =>
      eventOf('bye', { kind: 62, created_at: NOW - 1, tags: [['relay', url]] });
    expect((await reader.publish(vanish('wss://elsewhere.example')))[2]).toBe(false);
    expect((await reader.publish(vanish('wss://relay.example.org')))[2]).toBe(true);
  });
});

describe('connections', () => {
  const request = (remoteAddress: string, forwarded?: string) =>
    ({
      socket: { remoteAddress },
      headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
    }) as unknown as IncomingMessage;

  test('an IPv6 customer with 2^64 addresses counts as one', () => {
    const [a, b, c] = ['2001:db8:1:2::1', '2001:db8:1:2:ffff::9', '2001:db8:1:3::1'].map(sourceOf);
    expect(a).toEqual({ address: '2001:db8:1:2::/64', isNear: false });
    expect(b).toEqual(a);
    expect(c).not.toEqual(a);
    expect(sourceOf('::ffff:192.0.2.7')).toEqual({ address: '192.0.2.7', isNear: false });
    for (const near of ['127.0.0.1', '::1', '10.1.2.3', '192.168.1.1', 'fd00::1', 'fe80::1%eth0']) {
      expect(sourceOf(near).isNear).toBe(true);
    }
  });

  test('one address gets 64 connections, and leaves room for others', () => {
    const admission = new Admission(defaultLimits, false);
    const places = Array.from({ length: 100 }, () => admission.admit(request('192.0.2.1'), 0));
    expect(places.filter((place) => place)).toHaveLength(64);
    expect(admission.admit(request('192.0.2.2'), 0)).toBeDefined();
    places[0]!.leave();
    expect(admission.admit(request('192.0.2.1'), 0)).toBeDefined();
  });

  test('one that connects over and over is not heard for a while', () => {
    const admission = new Admission(defaultLimits, false);
    const asked = Array.from({ length: 500 }, () => admission.mayAsk('192.0.2.1', 0));
    expect(asked.filter((may) => may)).toHaveLength(64);
    expect(admission.mayAsk('192.0.2.1', 60_000)).toBe(true);
  });

  test('one private address gets half of all places', () => {
    const admission = new Admission({ ...defaultLimits, maxConnections: 10 }, false);
    const places = Array.from({ length: 10 }, () => admission.admit(request('10.0.0.1'), 0));
    expect(places.filter((place) => place)).toHaveLength(5);
    expect(admission.admit(request('10.0.0.2'), 0)).toBeDefined();
  });

  test('X-Forwarded-For is believed from a near proxy only, and its last address', () => {
    const [forged, true_] = ['192.0.2.1', '192.0.2.2'];
    const header = `${forged}, ${true_}`;
    expect(sourceOfRequest(request('127.0.0.1', header), true).address).toBe(true_);
    expect(sourceOfRequest(request('127.0.0.1', header), false).address).toBe('127.0.0.1');
    expect(sourceOfRequest(request('198.51.100.1', header), true).address).toBe('198.51.100.1');
    expect(sourceOfRequest(request('127.0.0.1'), true).isNear).toBe(false);
  });

  test('one that gives no sign of life is closed, one that listens stays', async () => {
    let now = NOW * 1000;
    const relay = await start({ nowMs: () => now });
    const [dead, alive] = [await read(relay), await read(relay)];
    const silent = new WebSocket(relay.url, { autoPong: false });
    await once(silent, 'open');
    dead.say('REQ', 'a', { limit: 0 });
    now += 61_000;
    await new Promise((resolve) => setTimeout(resolve, 1500)); // the relay looks every second
    now += 61_000;
    await once(silent, 'close');
    while (relay.stats().connections > 2) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(relay.stats().connections).toBe(2);
    expect((await alive.publish(eventOf('here', { created_at: NOW })))[2]).toBe(true);
  });
});
