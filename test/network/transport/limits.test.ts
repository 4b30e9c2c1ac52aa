import { defaultRetry, refuse } from 'nostrain/base';
import { describe, expect, test } from 'vitest';
import { ok } from '../../../src/base/errors.ts';
import { mineDraft } from '../../../src/network/proof-of-work.ts';
import type { FetchInfo, RelayInfo } from '../../../src/network/transport/limits.ts';
import { isPrivateRelay } from '../../../src/network/transport/relay-urls.ts';
import { answerAll, openOne, PRIVATE, PUBLIC, sentWith } from '../../support/one-relay.ts';
import { eventOf, signerOf } from '../../support/signers.ts';

const event = eventOf('payload');

const telling =
  (limitation: RelayInfo['limitation'], software = 'strfry'): FetchInfo =>
  async () =>
    ok({ supportedNips: [11], software, limitation });

/** An event whose JSON has exactly this many bytes. */
function eventOfBytes(bytes: number) {
  const empty = JSON.stringify(eventOf('')).length;
  return eventOf('x'.repeat(bytes - empty));
}

test.each([
  ['ws://127.0.0.1', true],
  ['ws://127.9.9.9:1', true],
  ['ws://localhost:7777', true],
  ['ws://[::1]:7777', true],
  ['ws://10.1.2.3', true],
  ['ws://192.168.1.7', true],
  ['ws://172.16.0.1', true],
  ['ws://172.31.0.1', true],
  ['ws://172.32.0.1', false],
  ['ws://[fd12::1]', true],
  ['ws://100.64.0.1', true],
  ['ws://192.0.2.2:7777', true],
  ['ws://[2001:db8::1]', true],
  ['ws://[2606:4700::1]', false],
  ['ws://8.8.8.8', false],
  ['ws://box.local', true],
  ['ws://10.example.com', false],
  ['ws://127.0.0.1.example.com', false],
  ['wss://notlocalhost', false],
  ['wss://relay.example.com', false],
])('%s is private: %s', (url, expected) => expect(isPrivateRelay(url)).toBe(expected));

describe('rate', () => {
  const five = Array.from({ length: 8 }, (_, i) => eventOf(`${i}`));

  test('a public relay gets five events, the others wait their turn', async () => {
    const { clock, sockets, set } = openOne(PUBLIC);
    const publishing = Promise.all(five.map((each) => set.publish(each)));
    await clock.advance(0);
    const socket = sockets.latest();
    expect(sentWith(socket, 'EVENT')).toHaveLength(5);
    for (let i = 6; i <= 8; i++) {
      answerAll(socket, true);
      await clock.advance(12_000);
      expect(sentWith(socket, 'EVENT').map(([, sent]) => sent)).toEqual(five.slice(0, i));
    }
    answerAll(socket, true);
    expect((await publishing).every(([outcome]) => outcome!.status === 'accepted')).toBe(true);
    await set.close();
  });

  test('a private relay gets all at once, and so does any where the caller says so', async () => {
    for (const [url, options] of [
      [PRIVATE, {}],
      [PUBLIC, { eventsPerMinute: 0 }],
    ] as const) {
      const { clock, sockets, set } = openOne(url, options);
      const publishing = Promise.all(five.map((each) => set.publish(each)));
      await clock.advance(0);
      expect(sentWith(sockets.latest(), 'EVENT')).toHaveLength(8);
      answerAll(sockets.latest(), true);
      await publishing;
      await set.close();
    }
  });

  test('a heartbeat is skipped when there is no room, in words', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { eventsPerMinute: 1 });
    const first = set.publish(event, { skipWhenBusy: true });
    await clock.advance(0);
    answerAll(sockets.latest(), true);
    expect((await first)[0]!.status).toBe('accepted');
    expect((await set.publish(eventOf('2'), { skipWhenBusy: true }))[0]).toEqual({
      relay: PUBLIC,
      status: 'throttled',
      message: 'this relay gets 1 events a minute, the next in 60 s',
      attempts: 0,
      delaysMs: [],
    });
    await set.close();
  });

  test.each([
    ['an OK', ['OK', event.id, false, 'rate-limited: slow down']],
    ['a NOTICE', ['NOTICE', 'slow down, please']],
  ])('after %s that says so the same event goes out again', async (_, frame) => {
    const { clock, sockets, set, status } = openOne(PUBLIC);
    const stop = new AbortController();
    const publishing = set.publish(event, { signal: stop.signal });
    await clock.advance(0);
    const socket = sockets.latest();
    for (let i = 1; i <= 6; i++) {
      socket.hear(...frame);
      await clock.advance(74_999);
      expect(sentWith(socket, 'EVENT')).toHaveLength(i);
      await clock.advance(1);
      expect(sentWith(socket, 'EVENT')).toHaveLength(i + 1);
    }
    expect(status().limits.eventsPerMinute).toBe(0.5);
    answerAll(socket, true);
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', attempts: 7 });
    await set.close();
  });

  test('without a signal that goes on four times', async () => {
    const { clock, sockets, set } = openOne(PUBLIC);
    const publishing = set.publish(event);
    for (let i = 0; i < 4; i++) {
      await clock.advance(i === 0 ? 0 : 75_000);
      sockets.latest().hear('OK', event.id, false, 'rate-limited: no');
    }
    expect((await publishing)[0]).toMatchObject({ status: 'throttled', attempts: 4 });
    await set.close();
  });

  test('an abort leaves the line, a close ends it', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { eventsPerMinute: 1 });
    const first = set.publish(event);
    const stop = new AbortController();
    const second = set.publish(eventOf('2'), { signal: stop.signal });
    const third = set.publish(eventOf('3'));
    await clock.advance(0);
    answerAll(sockets.latest(), true);
    await first;
    stop.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    await set.close();
    expect((await third)[0]).toMatchObject({ status: 'unreachable', message: 'closed' });
    expect(clock.pending).toBe(0);
  });

  test('HTTP 503 instead of a connection is a request for a pause', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { retry: defaultRetry }, (socket, i) =>
      i === 0 ? socket.refuse('Unexpected server response: 503') : socket.accept(),
    );
    const publishing = set.publish(event);
    await clock.advance(1000);
    expect((await set.publish(eventOf('2'), { skipWhenBusy: true }))[0]!.status).toBe('throttled');
    await clock.advance(73_999);
    expect(sockets.attempts).toHaveLength(1);
    await clock.advance(1);
    answerAll(sockets.latest(), true);
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', delaysMs: [75_000] });
    await set.close();
  });
});

describe('size', () => {
  test('a public relay is not sent what it will not take', async () => {
    const { clock, sockets, set, status } = openOne(PUBLIC);
    expect((await set.publish(eventOfBytes(65_537)))[0]).toEqual({
      relay: PUBLIC,
      status: 'refused',
      message: 'too large: the event has 65537 bytes, this relay takes 65536',
      attempts: 0,
      delaysMs: [],
    });
    const fits = set.publish(eventOfBytes(65_536));
    await clock.advance(0);
    answerAll(sockets.latest(), true);
    expect((await fits)[0]!.status).toBe('accepted');
    expect(status().limits.maxEventBytes).toBe(65_536);
    await set.close();
  });

  test.each([
    ['a private relay', PRIVATE, {}],
    ['any, where the caller says so', PUBLIC, { maxEventBytes: 0 }],
  ])('%s is tried with any size, and its refusal remembered', async (_, url, options) => {
    const { clock, sockets, set, status } = openOne(url, options);
    const big = eventOfBytes(200_000);
    const publishing = set.publish(big);
    await clock.advance(0);
    answerAll(sockets.latest(), false, 'invalid: event too large');
    expect((await publishing)[0]).toMatchObject({ status: 'refused', attempts: 1 });
    expect(status().limits.maxEventBytes).toBe(199_999);
    expect((await set.publish(eventOfBytes(200_001)))[0]!.attempts).toBe(0);
    await set.close();
  });

  test('a NOTICE about one subscription too many says nothing about the size of an event', async () => {
    const { clock, sockets, set, status } = openOne(PRIVATE);
    const publishing = set.publish(event);
    await clock.advance(0);
    sockets
      .latest()
      .hear(
        'NOTICE',
        'invalid: Subscription rejected: Too many subscriptions: ' +
          'Number of subscriptions must be less than or equal to 10',
      );
    answerAll(sockets.latest(), true);
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', attempts: 1 });
    expect(status().limits.maxEventBytes).toBeUndefined();
    await set.close();
  });

  test.each([
    ['lowers', { maxMessageLength: 20_010 }, 'strfry', 20_000],
    ['does not raise', { maxMessageLength: 1_000_010 }, 'strfry', 65_536],
    ['is believed of our own relay', { maxMessageLength: 1_000_010 }, 'nostrain-relay', 1_000_000],
    ['may be empty', {}, 'strfry', 65_536],
  ])('a description %s', async (_, limitation, software, bytes) => {
    const { clock, set, status } = openOne(PUBLIC, { fetchInfo: telling(limitation, software) });
    await clock.advance(0);
    expect(status().limits.maxEventBytes).toBe(bytes);
    await set.close();
  });

  test('content is counted in characters', async () => {
    const fetchInfo = telling({ maxContentLength: 10, maxSubscriptions: 7 });
    const { clock, set, status } = openOne(PUBLIC, { fetchInfo });
    await clock.advance(0);
    expect((await set.publish(eventOf('ä'.repeat(11))))[0]).toMatchObject({
      status: 'refused',
      message: 'too large: the content has 11 characters, this relay takes 10',
      attempts: 0,
    });
    expect(status().limits).toMatchObject({ maxContentLength: 10, maxSubscriptions: 7 });
    await set.close();
  });
});

describe('the description', () => {
  test('holds the first event back for a second at most, and is asked for once', async () => {
    let asked = 0;
    const { clock, sockets, set } = openOne(PUBLIC, {
      fetchInfo: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    const publishing = set.publish(event);
    await clock.advance(999);
    expect(sockets.latest().sent).toEqual([]);
    await clock.advance(1);
    expect(sockets.latest().sent).toEqual([['EVENT', event]]);
    sockets.latest().drop();
    await clock.advance(250);
    answerAll(sockets.latest(), true);
    expect((await publishing)[0]!.status).toBe('accepted');
    expect(asked).toBe(1);
    await set.close();
    expect(clock.pending).toBe(0);
  });

  test('counts when it comes late, and a missing one does no harm', async () => {
    const late = openOne(PUBLIC, {
      fetchInfo: async (_, signal) => {
        await late.clock.sleep(3000, signal);
        return ok({ supportedNips: [], limitation: { maxMessageLength: 1010 } });
      },
    });
    await late.clock.advance(3000);
    expect(late.status().limits.maxEventBytes).toBe(1000);
    await late.set.close();
    const none = openOne(PUBLIC, { fetchInfo: async () => refuse('http-status', '', 'HTTP 404') });
    const publishing = none.set.publish(event);
    await none.clock.advance(0);
    answerAll(none.sockets.latest(), true);
    expect((await publishing)[0]!.status).toBe('accepted');
    await none.set.close();
  });
});

describe('work', () => {
  test('is known from the description and from answers, up to what we do', async () => {
    const fetchInfo = telling({ minPowDifficulty: 8 });
    const { clock, sockets, set, status } = openOne(PUBLIC, { fetchInfo });
    await clock.advance(0);
    expect([set.workFor(1000), set.workFor(1001)]).toEqual([8, 8]);
    const publishing = set.publish(event);
    await clock.advance(0);
    answerAll(sockets.latest(), false, 'pow: difficulty 2 is less than 16');
    expect((await publishing)[0]).toMatchObject({
      status: 'pow-needed',
      message: 'pow: difficulty 2 is less than 16',
    });
    expect([set.workFor(1000), set.workFor(1001)]).toEqual([16, 8]);
    expect((await set.publish(eventOf('2')))[0]).toMatchObject({
      status: 'pow-needed',
      message: expect.stringMatching(/^pow: 16 bits wanted, this event has \d+$/),
      attempts: 0,
    });
    expect(status().limits.workBits).toBe(16);
    await set.close();
  });

  test('is named where the relay does not, and not asked for beyond our most', async () => {
    const fetchInfo = telling({ minPowDifficulty: 21 });
    const { clock, sockets, set } = openOne(PUBLIC, { fetchInfo });
    const publishing = set.publish(event);
    await clock.advance(0);
    answerAll(sockets.latest(), false, 'pow: more');
    expect((await publishing)[0]!.message).toBe('pow: more (21 bits)');
    expect(set.workFor(1000)).toBe(0);
    await set.close();
  });

  test('is asked for again after a minute with one event, and no more if the relay takes that', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, {});
    const asked = set.publish(event);
    await clock.advance(0);
    answerAll(sockets.latest(), false, 'pow: difficulty 0 is less than 16');
    await asked;
    await clock.advance(59_000);
    expect((await set.publish(eventOf('early')))[0]).toMatchObject({
      status: 'pow-needed',
      attempts: 0,
    });
    await clock.advance(1000);
    const probed = set.publish(eventOf('probe'));
    expect((await set.publish(eventOf('second')))[0]).toMatchObject({
      status: 'pow-needed',
      attempts: 0,
    });
    await clock.advance(0);
    answerAll(sockets.latest(), true);
    expect((await probed)[0]!.status).toBe('accepted');
    expect(set.workFor(1000)).toBe(0);
    await set.close();
  });

  test('attack: a relay that refuses events that have the work it requires is given up', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, {});
    const worked = (content: string) => {
      const draft = { kind: 1000, created_at: 1, tags: [], content };
      return signerOf(1).sign(mineDraft({ ...draft, pubkey: signerOf(1).publicKey }, 8));
    };
    const refusals: (string | undefined)[] = [];
    for (const content of ['none', 'one', 'two', 'three']) {
      const publishing = set.publish(content === 'none' ? event : worked(content));
      await clock.advance(0);
      answerAll(sockets.latest(), false, 'pow: difficulty 8 is asked for');
      await clock.advance(60_000);
      refusals.push((await publishing)[0]!.message);
    }
    expect(refusals).toEqual([
      ...Array(3).fill('pow: difficulty 8 is asked for'),
      'pow: this relay refuses events that have the work it requires',
    ]);
    expect(set.workFor(1000)).toBe(0);
    await set.close();
  });
});

test('a NOTICE that says something else is told when no answer comes', async () => {
  const { clock, sockets, set } = openOne(PUBLIC);
  const publishing = set.publish(event);
  await clock.advance(0);
  sockets.latest().hear('NOTICE', 'could not parse command');
  for (let i = 1; i <= 4; i++) {
    await clock.advance(10_100);
    sockets.latest().hear('EOSE', `q${i}`);
    await clock.advance(2000);
  }
  expect((await publishing)[0]).toMatchObject({
    status: 'no-verdict',
    message: 'no answer in time; it said: could not parse command',
    attempts: 4,
  });
  await set.close();
});
