import fc from 'fast-check';
import {
  createRelaySet,
  defaultQuota,
  type RelaySetOptions,
  type SignedEvent,
} from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf, forgedTwin } from '../../support/signers.ts';

const URLS = ['ws://a.test', 'ws://b.test'];
const filter = { kinds: [1000] };

/** A set over relays that accept at once (unless told otherwise), with one subscription and what it heard. */
async function listen(
  urls = URLS,
  onAttempt = (socket: FakeSocket, _index: number) => socket.accept(),
  options: Partial<RelaySetOptions> = {},
) {
  const clock = createManualClock();
  const sockets = createFakeSockets(onAttempt);
  const set = createRelaySet(urls, {
    openSocket: sockets.openSocket,
    clock,
    retry: { maxAttempts: 3, initialMs: 100, maxMs: 1000, multiplier: 2, jitter: 'none' },
    maxFrameBytes: 10_000,
    ...options,
  });
  const heard: SignedEvent[] = [];
  const refused: string[] = [];
  const caughtUp: string[] = [];
  const subscription = set.subscribe([filter], {
    onEvent: (event) => void heard.push(event),
    onRefused: (reason, _, relay) => void refused.push(`${reason} from ${relay}`),
    onCaughtUp: (relay) => void caughtUp.push(relay),
  });
  await clock.advance(0);
  const [a, b] = sockets.attempts;
  return { clock, sockets, set, heard, refused, caughtUp, subscription, a: a!, b: b! };
}

test('a request that no relay answered is sent again after a minute, then after two', async () => {
  const { a, clock, caughtUp, set } = await listen(['ws://a.test']);
  const requests = () => a.sent.filter((frame) => `${frame}`.startsWith('REQ,n1,')).length;
  const counts: number[] = [];
  for (const seconds of [59, 2, 118, 2]) {
    await clock.advance(1000 * seconds);
    counts.push(requests());
  }
  expect(counts).toEqual([1, 2, 2, 3]);
  a.hear('EOSE', 'n1');
  await clock.advance(600_000);
  expect(caughtUp).toEqual(['ws://a.test']);
  expect(requests()).toBe(3);
  await set.close();
});

test('a relay that counts closed subscriptions is told again which ones are over', async () => {
  const { a, clock, set } = await listen(['ws://a.test']);
  for (let i = 0; i < 30; i++) set.subscribe([filter], { onEvent: () => undefined }).close();
  await clock.advance(0);
  const closed = () =>
    a.sent.filter(([verb]) => verb === 'CLOSE').map(([, id]) => Number(`${id}`.slice(1)));
  const first = closed();
  expect(first).toHaveLength(30);
  a.hear('NOTICE', 'rate-limited: too many messages');
  expect(closed()).toEqual(first);
  a.hear('NOTICE', 'Subscription rejected: Too many subscriptions');
  expect(closed().slice(30)).toEqual(first.slice(0, 20));
  a.hear('CLOSED', 'n1', 'error: too many open subscriptions');
  expect(closed()).toHaveLength(50);
  await clock.advance(1000);
  a.hear('CLOSED', 'n1', 'error: too many open subscriptions');
  expect(closed().slice(50)).toEqual([...first.slice(20), ...first.slice(0, 10)]);
  expect(closed()).not.toContain(1);
  await set.close();
});

describe('what counts', () => {
  const event = eventOf('genuine');

  test('an event brought by two relays, twice each, is heard once', async () => {
    const { a, b, heard, set } = await listen();
    for (const socket of [a, b, a, b]) socket.hear('EVENT', 'n1', event);
    expect(heard).toEqual([event]);
    expect(set.status().map(({ events, duplicates }) => [events, duplicates])).toEqual([
      [1, 1],
      [0, 2],
    ]);
    await set.close();
  });

  test('a forged twin that comes first does not hide the genuine event', async () => {
    const { a, b, heard, refused, set } = await listen();
    a.hear('EVENT', 'n1', forgedTwin(event));
    a.hear('EVENT', 'n1', { ...event, content: 'forged' });
    a.hear('EVENT', 'n1', { ...event, sig: undefined });
    expect(heard).toEqual([]);
    b.hear('EVENT', 'n1', event);
    expect(heard).toEqual([event]);
    expect(refused).toEqual(
      ['bad-signature', 'bad-id', 'unsigned'].map((reason) => `${reason} from ws://a.test`),
    );
    await set.close();
  });

  test('a known id does not let another content or signature through to a second subscription', async () => {
    const { a, b, set } = await listen();
    a.hear('EVENT', 'n1', event);
    const heard: SignedEvent[] = [];
    const refused: string[] = [];
    set.subscribe([filter], {
      onEvent: (e) => void heard.push(e),
      onRefused: (reason) => void refused.push(reason),
    });
    b.hear('EVENT', 'n2', { ...event, content: 'forged' });
    b.hear('EVENT', 'n2', forgedTwin(event));
    b.hear('EVENT', 'n2', event);
    expect(refused).toEqual(['bad-id', 'bad-signature']);
    expect(heard).toEqual([event]);
    await set.close();
  });

  test('what was not asked for is not heard', async () => {
    const { a, heard, refused, set } = await listen();
    a.hear('EVENT', 'n1', eventOf('other kind', { kind: 1001 }));
    a.hear('EVENT', 'n7', event);
    expect([heard, refused]).toEqual([[], []]);
    expect(set.status()[0]).toMatchObject({ strays: 2 });
    await set.close();
  });

  test('an event from the far future does not deafen, not even after a reconnect', async () => {
    const { a, clock, sockets, heard, set } = await listen(['ws://a.test']);
    const future = eventOf('future', { created_at: 4_000_000_000 });
    a.hear('EVENT', 'n1', future);
    a.hear('EOSE', 'n1');
    a.drop();
    await clock.advance(100);
    expect(sockets.latest().sent).toEqual([['REQ', 'n1', filter]]);
    sockets.latest().hear('EVENT', 'n1', event);
    expect(heard).toEqual([future, event]);
    await set.close();
  });

  test('a closed subscription hears nothing and is not asked for again', async () => {
    const { a, clock, sockets, heard, subscription, set } = await listen(['ws://a.test']);
    subscription.close();
    subscription.close();
    expect(a.sent).toEqual([
      ['REQ', 'n1', filter],
      ['CLOSE', 'n1'],
    ]);
    a.hear('EVENT', 'n1', event);
    a.drop();
    await clock.advance(100);
    expect([heard, sockets.latest().sent]).toEqual([[], []]);
    await set.close();
  });
});

describe('caught up', () => {
  test('when every reachable relay has sent EOSE', async () => {
    const { a, b, clock, subscription, caughtUp, set } = await listen();
    expect(subscription.caughtUp).toBe(false);
    a.hear('EOSE', 'n1');
    expect(subscription.caughtUp).toBe(false);
    b.drop();
    await clock.advance(0);
    expect(subscription.caughtUp).toBe(true);
    await clock.advance(100);
    expect(subscription.caughtUp).toBe(false); // b is back and has not said EOSE yet
    expect(caughtUp).toEqual(['ws://a.test']);
    await set.close();
  });

  test('never while no relay can be reached', async () => {
    const { clock, subscription, set } = await listen(URLS, (socket) => socket.refuse());
    await clock.advance(5000);
    expect(subscription.caughtUp).toBe(false);
    await set.close();
  });

  test('waits for a relay whose first connection is under way', async () => {
    const { a, subscription, set } = await listen(URLS, (s, i) => i === 0 && s.accept());
    a.hear('EOSE', 'n1');
    expect(subscription.caughtUp).toBe(false);
    await set.close();
  });
});

describe('relays that misbehave', () => {
  test('CLOSED for a passing reason is asked again after a wait, but not for ever', async () => {
    const { a, clock, set } = await listen(['ws://a.test']);
    const asked = () => a.sent.filter(([verb]) => verb === 'REQ').length;
    a.hear('CLOSED', 'n1', 'error: busy');
    expect(asked()).toBe(1);
    await clock.advance(100);
    expect(asked()).toBe(2);
    for (let i = 0; i < 5; i++) {
      a.hear('CLOSED', 'n1', 'error: busy');
      await clock.advance(5000);
    }
    expect(asked()).toBe(3);
    expect(set.status()[0]!.lastNotice).toBe('error: busy');
    await set.close();
  });

  test('CLOSED for good leaves the other relays', async () => {
    const { a, b, clock, subscription, set } = await listen();
    a.hear('CLOSED', 'n1', 'restricted: members only');
    b.hear('EOSE', 'n1');
    await clock.advance(100_000);
    expect(a.sent).toHaveLength(1);
    expect(subscription.caughtUp).toBe(true);
    await set.close();
  });

  test('oversize, binary and unknown frames are dropped and counted', async () => {
    const { a, heard, set } = await listen();
    a.hearText(JSON.stringify(['EVENT', 'n1', eventOf('x')]), 10_001);
    a.hearText(undefined, 5);
    for (const text of ['', 'null', '{}', '[]', '["EVENT"]', '["OK","x","yes"]', '["HELLO","x"]']) {
      a.hearText(text);
    }
    a.hearText('['.repeat(9000));
    a.hear('AUTH', 'challenge');
    a.hear('NOTICE', 'hi\u001b[31m there');
    expect(heard).toEqual([]);
    expect(set.status()[0]).toMatchObject({ garbage: 10, lastNotice: 'hi [31m there' });
    await set.close();
  });

  test('a relay that accepts and hangs up without a word is not hammered', async () => {
    const { clock, sockets, set } = await listen(['ws://a.test'], (socket) => {
      socket.accept();
      socket.drop();
    });
    await clock.advance(60_000);
    expect(sockets.attempts.length).toBeLessThan(12);
    await set.close();
    expect(clock.pending).toBe(0);
  });

  test('any JSON is survived', async () => {
    const quota = { ...defaultQuota, faultsPerMinute: Number.POSITIVE_INFINITY };
    const { a, heard, set } = await listen(['ws://a.test'], undefined, { quota });
    const verb = fc.constantFrom('EVENT', 'EOSE', 'CLOSED', 'OK', 'NOTICE', 'AUTH', 'COUNT');
    const name = fc.constantFrom('n1', 'n2', 'q1', '', '__proto__');
    const event = eventOf('x');
    const bent = fc
      .tuple(fc.constantFrom(...Object.keys(event)), fc.jsonValue())
      .map(([field, value]) => ({ ...event, kind: 1000, [field]: value }));
    const frame = fc.oneof(
      fc.jsonValue().map((json) => [json]),
      fc.tuple(verb, fc.jsonValue(), fc.jsonValue(), fc.jsonValue()),
      fc.tuple(verb, name, fc.oneof(fc.jsonValue(), bent, fc.boolean()), fc.string()),
    );
    fc.assert(
      fc.property(frame, fc.string(), (json, text) => {
        a.hear(...json);
        a.hearText(text);
      }),
      { numRuns: 300 },
    );
    a.hear('EVENT', 'n1', eventOf('still here'));
    expect(heard.at(-1)!.content).toBe('still here');
    await set.close();
  });
});

describe('ready', () => {
  test('names every relay when none can be reached', async () => {
    const { clock, set } = await listen(URLS, (socket) =>
      socket.refuse(`no route to ${socket.url}`),
    );
    const ready = set.ready();
    ready.catch(() => {});
    await clock.advance(10_000);
    await expect(ready).rejects.toMatchObject({
      code: 'relay/none-reachable',
      message: expect.stringMatching(/a\.test: no route to ws:\/\/a\.test; .*b\.test: no route/),
    });
    await set.close();
  });

  test('waits for a relay that is not up yet, and says so', async () => {
    let isUp = false;
    const connect = (socket: FakeSocket) => (isUp ? socket.accept() : socket.refuse('down'));
    const { clock, set } = await listen(URLS, connect);
    const told: string[] = [];
    const ready = set.ready(undefined, { waitMs: 120_000, onNotice: (line) => told.push(line) });
    await clock.advance(40_000);
    expect(told).toEqual([
      expect.stringMatching(/^no relay can be reached: .*a\.test.*; retrying: /),
    ]);
    isUp = true;
    await clock.advance(30_000);
    await ready;
    expect(told.slice(1)).toEqual([expect.stringMatching(/^relay there after [4-7]\d s$/)]);
    await set.close();
  });

  test('waits no longer than it was told, and not for a set that is closed', async () => {
    const down = (socket: FakeSocket) => socket.refuse('down');
    const { clock, set } = await listen(URLS, down);
    const late = set.ready(undefined, { waitMs: 20_000 });
    const closed = set.ready(undefined, { waitMs: 200_000 });
    for (const each of [late, closed]) each.catch(() => {});
    await clock.advance(30_000);
    await expect(late).rejects.toMatchObject({ code: 'relay/none-reachable' });
    await set.close();
    await expect(closed).rejects.toMatchObject({ code: 'relay/none-reachable' });
  });

  test('one relay is enough; a silent one is given up after the timeout', async () => {
    const { set } = await listen(URLS, (socket, i) => i === 1 && socket.accept());
    await set.ready();
    await set.close();
    const silent = await listen(URLS, () => {});
    const ready = silent.set.ready();
    ready.catch(() => {});
    await silent.clock.advance(10_000);
    await expect(ready).rejects.toMatchObject({ code: 'relay/none-reachable' });
    await silent.set.close();
  });
});
