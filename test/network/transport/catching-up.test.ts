/** What is queried after a reconnect and after an early EOSE, so that no event is lost. */

import { systemClock } from 'nostrain/base';
import {
  createRelaySet,
  createSigner,
  type Filter,
  type RelaySetOptions,
  type SignedEvent,
  type Socket,
  type SubscribeOptions,
} from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type RelayOptions } from 'nostrain/relay';
import { afterEach, describe, expect, test } from 'vitest';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock, type ManualClock } from '../../support/manual-clock.ts';
import { openReader } from '../../support/raw-reader.ts';
import { eventOf, forgedTwin } from '../../support/signers.ts';

const URL_A = 'ws://a.test';
const START = 1_700_000_000;
const FUTURE = 4_000_000_000;
const filter: Filter = { kinds: [1000] };
const signer = createSigner(new Uint8Array(32).fill(1), nativeCrypto);

/** One fake relay, one subscription, and what it heard. */
async function listen(subscribing: SubscribeOptions = {}, options: Partial<RelaySetOptions> = {}) {
  const clock = createManualClock(START * 1000);
  const sockets = createFakeSockets((socket) => socket.accept());
  const set = createRelaySet([URL_A], {
    openSocket: sockets.openSocket,
    clock,
    crypto: nativeCrypto,
    retry: { maxAttempts: 3, initialMs: 100, maxMs: 100, multiplier: 1, jitter: 'none' },
    ...options,
  });
  const heard: SignedEvent[] = [];
  const onEvent = (event: SignedEvent) => void heard.push(event);
  const subscription = set.subscribe([filter], { onEvent }, subscribing);
  await clock.advance(0);
  const reconnect = async () => {
    sockets.latest().drop();
    await clock.advance(100);
    return sockets.latest();
  };
  return { clock, sockets, set, heard, subscription, reconnect, socket: sockets.latest() };
}

/** Distinct events that name these times. */
const datedAt = (...times: number[]) =>
  times.map((created_at, i) =>
    signer.sign({ kind: 1000, created_at, tags: [], content: `${created_at} ${i}` }),
  );

describe('after a reconnect', () => {
  const asked = (since?: number) => [
    ['REQ', 'n1', since === undefined ? filter : { ...filter, since }],
  ];

  test('everything is asked for again: what is sent late with its old time is not missed', async () => {
    const { socket, reconnect, heard, set } = await listen();
    socket.hear('EOSE', 'n1');
    const next = await reconnect();
    expect(next.sent).toEqual(asked());
    const late = eventOf('made before, sent after a restart', { created_at: START - 5000 });
    next.hear('EVENT', 'n1', late);
    expect(heard).toEqual([late]);
    await set.close();
  });

  test('a long-lived subscription asks from two minutes before the relay was last heard', async () => {
    const { clock, socket, reconnect, set } = await listen({ longLived: true });
    expect(socket.sent).toEqual(asked());
    socket.hear('EOSE', 'n1');
    await clock.advance(50_000);
    socket.hear('NOTICE', 'still here');
    await clock.advance(3_600_000); // silence proves nothing
    expect((await reconnect()).sent).toEqual(asked(START + 50 - 120));
    await set.close();
  });

  test('but from the start while the relay never sent all it had', async () => {
    const { clock, socket, reconnect, set } = await listen({ longLived: true });
    socket.hear('EVENT', 'n1', eventOf('one'));
    await clock.advance(50_000);
    expect((await reconnect()).sent).toEqual(asked());
    await set.close();
  });

  test('and a connection without EOSE does not count as heard', async () => {
    const { clock, socket, reconnect, set } = await listen({ longLived: true });
    socket.hear('EOSE', 'n1');
    const second = await reconnect();
    await clock.advance(900_000);
    second.hear('EVENT', 'n1', eventOf('one of many that are due'));
    expect((await reconnect()).sent).toEqual(asked(START - 120));
    await set.close();
  });
});

describe('faults of widely used pools that must not be ours', () => {
  test.each([{}, { longLived: true }])(
    'a date in the future moves nothing: %j',
    async (options) => {
      const { clock, socket, reconnect, heard, set } = await listen(options);
      const future = eventOf('future', { created_at: FUTURE });
      socket.hear('EVENT', 'n1', future);
      socket.hear('EOSE', 'n1');
      await clock.advance(1000);
      const next = await reconnect();
      const [, , asked] = next.sent[0] as [string, string, Filter];
      expect(asked.since ?? 0).toBeLessThan(START);
      const event = eventOf('genuine');
      next.hear('EVENT', 'n1', event);
      expect(heard).toEqual([future, event]);
      await set.close();
    },
  );

  test('a forged twin that comes first, over any of the ways, hides nothing', async () => {
    const { clock, socket, reconnect, heard, set } = await listen();
    const event = eventOf('genuine');
    const twins = [forgedTwin(event), { ...event, content: 'other' }, { ...event, tags: [['x']] }];
    for (const twin of twins) socket.hear('EVENT', 'n1', twin);
    socket.hear('EOSE', 'n1');
    await clock.advance(3000);
    for (const twin of twins) socket.hear('EVENT', 'x1', twin); // the recheck
    const next = await reconnect();
    for (const twin of twins) next.hear('EVENT', 'n1', twin);
    expect(heard).toEqual([]);
    next.hear('EVENT', 'n1', event);
    expect(heard).toEqual([event]);
    await set.close();
  });
});

test('the last minute is asked for once more after EOSE, and what was lost meanwhile is heard', async () => {
  const { clock, socket, heard, subscription, set } = await listen();
  socket.hear('EOSE', 'n1');
  expect(subscription.caughtUp).toBe(true);
  await clock.advance(2999);
  expect(socket.sent).toHaveLength(1);
  await clock.advance(1);
  expect(socket.sent.slice(1)).toEqual([['REQ', 'x1', { ...filter, since: START - 60 }]]);
  const lost = eventOf('stored while the subscription was being made');
  socket.hear('EVENT', 'x1', lost);
  socket.hear('EOSE', 'x1');
  await new Promise(setImmediate);
  expect(heard).toEqual([lost]);
  expect(socket.sent.slice(2)).toEqual([['CLOSE', 'x1']]);
  socket.hear('EVENT', 'x1', eventOf('after the end'));
  await clock.advance(60_000);
  expect(heard).toEqual([lost]);
  expect(socket.sent).toHaveLength(3);
  await set.close();
});

test('an event for a subscription that this relay was not asked on is not heard', async () => {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const set = createRelaySet([URL_A, 'ws://b.test'], { openSocket: sockets.openSocket, clock });
  const heard: SignedEvent[] = [];
  await clock.advance(0);
  const onEvent = (event: SignedEvent) => void heard.push(event);
  set.subscribe([filter], { onEvent }, { only: [URL_A] });
  const [a, b] = sockets.attempts;
  b!.hear('EVENT', 'n1', eventOf('from b'));
  b!.hear('EOSE', 'n1');
  expect([heard, set.status()[1]!.strays]).toEqual([[], 1]);
  a!.hear('EVENT', 'n1', eventOf('from a'));
  expect(heard).toHaveLength(1);
  await set.close();
});

test('the last minute is not asked for once the subscription is closed', async () => {
  const { clock, socket, subscription, set } = await listen();
  socket.hear('EOSE', 'n1');
  subscription.close();
  await clock.advance(60_000);
  expect(socket.sent.slice(1)).toEqual([['CLOSE', 'n1']]);
  await set.close();
});

describe('a renewed subscription', () => {
  test('asks for everything under another name and hands over only what is new', async () => {
    const { clock, socket, reconnect, heard, subscription, set } = await listen();
    const [known, late] = datedAt(START, START) as [SignedEvent, SignedEvent];
    socket.hear('EVENT', 'n1', known);
    socket.hear('EOSE', 'n1');
    subscription.renew();
    expect(socket.sent.slice(1)).toEqual([
      ['CLOSE', 'n1'],
      ['REQ', 'n2', filter],
    ]);
    expect(subscription.caughtUp).toBe(false);
    for (const event of [known, late]) socket.hear('EVENT', 'n2', event);
    socket.hear('EOSE', 'n2');
    expect(heard).toEqual([known, late]);
    expect(subscription.caughtUp).toBe(true);
    await clock.advance(60_000);
    expect(socket.sent).toHaveLength(3); // no recheck
    const next = await reconnect();
    next.hear('EOSE', 'n2');
    await clock.advance(3000);
    expect(next.sent.map(([verb, name]) => `${verb} ${name}`)).toEqual(['REQ n2', 'REQ x1']);
    await set.close();
  });

  test('hands over once more what was not taken', async () => {
    const { socket, set } = await listen();
    const handed: SignedEvent[] = [];
    set.subscribe([filter], { onEvent: (event) => handed.push(event) > 1 });
    const [event] = datedAt(START) as [SignedEvent];
    for (const copy of [event, event, event]) socket.hear('EVENT', 'n2', copy);
    expect(handed).toEqual([event, event]);
    await set.close();
  });
});

describe('a relay that stops early', () => {
  const page = (until: number) => ['REQ', `x1`, { ...filter, until }];

  test('with "more", or with a full page and no word, is read on from where it stopped', async () => {
    for (const [count, hint] of [
      [3, ['more']],
      [100, undefined],
    ] as const) {
      const { socket, subscription, set } = await listen({ recheck: false });
      for (let i = 0; i < count; i++) socket.hear('EVENT', 'n1', datedAt(START - i)[0]);
      socket.hear('EOSE', 'n1', ...(hint ? [hint] : []));
      expect(subscription.caughtUp).toBe(false);
      expect(socket.sent[1]).toEqual(page(START - count + 1));
      socket.hear('EOSE', 'x1', ['finish']);
      await new Promise(setImmediate);
      expect(subscription.caughtUp).toBe(true);
      await set.close();
    }
  });

  test('with "finish" or fewer events is not, however the numbers look', async () => {
    for (const [count, hint] of [
      [100, ['finish']],
      [99, undefined],
      [0, ['more']],
    ] as const) {
      const { socket, subscription, set } = await listen({ recheck: false });
      for (let i = 0; i < count; i++) socket.hear('EVENT', 'n1', datedAt(START - i)[0]);
      socket.hear('EOSE', 'n1', ...(hint ? [hint] : []));
      expect(subscription.caughtUp).toBe(true);
      expect(socket.sent).toHaveLength(1);
      await set.close();
    }
  });

  test('within one second: steps a second back and says that something may be missing', async () => {
    const { socket, set, subscription } = await listen({ recheck: false });
    const events = datedAt(START, START, START);
    for (const event of events) socket.hear('EVENT', 'n1', event);
    socket.hear('EOSE', 'n1', ['more']);
    expect(socket.sent[1]).toEqual(page(START));
    for (const event of events) socket.hear('EVENT', 'x1', event);
    socket.hear('EOSE', 'x1', ['more']);
    await new Promise(setImmediate);
    expect(socket.sent.at(-1)).toEqual(['REQ', 'x2', { ...filter, until: START - 1 }]);
    socket.hear('EOSE', 'x2');
    await new Promise(setImmediate);
    expect(subscription.caughtUp).toBe(true);
    expect(set.status()[0]!.lastNotice).toMatch(/may be missing/);
    await set.close();
  });

  test('and never ends is given up', async () => {
    const { socket, set, subscription } = await listen({ recheck: false });
    const [event] = datedAt(START);
    socket.hear('EVENT', 'n1', event);
    socket.hear('EOSE', 'n1', ['more']);
    for (let i = 1; i <= 300; i++) {
      socket.hear('EVENT', `x${i}`, event);
      socket.hear('EOSE', `x${i}`, ['more']);
      await new Promise(setImmediate);
    }
    expect(subscription.caughtUp).toBe(true);
    expect(socket.sent.length).toBeLessThan(500);
    await set.close();
  });

  test('or says nothing more is given up after a while', async () => {
    const { clock, socket, set, subscription } = await listen({ recheck: false });
    socket.hear('EVENT', 'n1', datedAt(START)[0]);
    socket.hear('EOSE', 'n1', ['more']);
    await clock.advance(60_000);
    expect(subscription.caughtUp).toBe(true);
    await set.close();
  });
});

describe('against real relays', () => {
  const opened: { close(): Promise<unknown> }[] = [];
  afterEach(async () => {
    for (const thing of opened.splice(0).reverse()) await thing.close();
  });

  /** A relay that holds these events, and a way to listen to it until it is caught up. */
  async function holding(events: readonly SignedEvent[], options: RelayOptions) {
    const relay = await createRelay(options);
    opened.push(relay);
    const writer = await openReader(relay.url);
    opened.push(writer);
    for (const event of events) await writer.publish(event);
    return { relay, writer };
  }

  function connect(url: string, options: Partial<RelaySetOptions> = {}) {
    const set = createRelaySet([url], {
      openSocket,
      clock: systemClock,
      crypto: nativeCrypto,
      ...options,
    });
    opened.push(set);
    return set;
  }

  const untilCaughtUp = (set: ReturnType<typeof connect>, filters: readonly Filter[]) => {
    const ids = new Set<string>();
    return new Promise<Set<string>>((resolve) => {
      const onEvent = ({ id }: SignedEvent) => void ids.add(id);
      set.subscribe(filters, { onEvent, onCaughtUp: () => resolve(ids) });
    });
  };
  const many = Array.from({ length: 330 }, (_, i) =>
    signer.sign({ kind: 1000 + (i % 2), created_at: START + (i >> 2), tags: [], content: `${i}` }),
  );
  const idsOf = (events: readonly SignedEvent[]) => new Set(events.map(({ id }) => id));

  test.each([
    ['that says so', {}],
    ['that says nothing', { strict: 'nostream' }],
  ] as const)('all is read from a relay with a limit %s', async (_, options) => {
    const limits = {
      maxLimit: 120,
      eventRates: [],
      messageRates: [],
      createdAtMaxAgeSeconds: undefined,
    };
    const { relay } = await holding(many, { ...options, limits });
    const set = connect(relay.url);
    expect(await untilCaughtUp(set, [{ kinds: [1000, 1001] }])).toEqual(idsOf(many));
    expect(await untilCaughtUp(set, [{ kinds: [1000] }, { kinds: [1001] }])).toEqual(idsOf(many));
    expect(await untilCaughtUp(set, [{ kinds: [1000], limit: 7 }])).toHaveProperty('size', 7);
  });

  test('what came while away is found by comparing ids, and only that is sent (NIP-77)', async () => {
    const { relay, writer } = await holding(many, {});
    const sockets: Socket[] = [];
    let isAway = false;
    const set = connect(relay.url, {
      openSocket: (url) => {
        const socket = openSocket(isAway ? 'ws://127.0.0.1:1' : url); // where nobody listens
        sockets.push(socket);
        return socket;
      },
      reconciles: (url) => url === relay.url,
      retry: { maxAttempts: 99, initialMs: 50, maxMs: 50, multiplier: 1, jitter: 'none' },
    });
    const heard: SignedEvent[] = [];
    let caughtUp = () => {};
    const again = () => new Promise<void>((resolve) => (caughtUp = resolve));
    let wait = again();
    const handlers = {
      onEvent: (event: SignedEvent) => void heard.push(event),
      onCaughtUp: () => caughtUp(),
    };
    set.subscribe([{ kinds: [1000, 1001] }], handlers, { recheck: false });
    await wait;
    expect(heard).toHaveLength(many.length);
    const before = set.status()[0]!.events + set.status()[0]!.duplicates;
    wait = again();
    isAway = true;
    sockets.at(-1)!.close();
    const missed = Array.from({ length: 70 }, (_, i) =>
      signer.sign({ kind: 1000, created_at: START + 3 * i - 100, tags: [], content: `late ${i}` }),
    );
    for (const event of missed) await writer.publish(event);
    isAway = false;
    await wait;
    expect(idsOf(heard.slice(many.length))).toEqual(idsOf(missed));
    const { events, duplicates } = set.status()[0]!;
    expect(events + duplicates - before).toBe(missed.length);
    await writer.publish(eventOf('live again'));
    await set.publish(eventOf('sent')); // and a round trip
    expect(heard.map(({ content }) => content)).toContain('live again');
  });
});

describe('reconciliation falls back to asking for everything', () => {
  const refusals = {
    'after NEG-ERR': (say: Say, name: string) => say('NEG-ERR', name, 'blocked: too many'),
    'after CLOSED': (say: Say, name: string) => say('CLOSED', name, 'unsupported: what?'),
    'after nonsense': (say: Say, name: string) => say('NEG-MSG', name, '61ffff'),
    'after what is not hex': (say: Say, name: string) => say('NEG-MSG', name, 'hello'),
    'after more ids than are taken': (say: Say, name: string) => {
      // one range to the end of time, mode 2: a list of 8193 ids
      say('NEG-MSG', name, `61000002c001${longIds(8193)}`);
    },
    'after silence': async (_: Say, __: string, clock: ManualClock) => clock.advance(20_000),
  };
  type Say = (...frame: readonly unknown[]) => void;
  const longIds = (count: number) =>
    Array.from({ length: count }, (_, i) => i.toString(16).padStart(64, '0')).join('');

  test.each(Object.entries(refusals))('%s', async (_, refuse) => {
    const { clock, socket, reconnect, set } = await listen({}, { reconciles: () => true });
    expect(socket.sent).toEqual([['REQ', 'n1', filter]]); // nothing known: nothing to compare
    for (const event of datedAt(...Array(64).fill(START))) socket.hear('EVENT', 'n1', event);
    const next = await reconnect();
    await until(() => next.sent.length === 2);
    expect(next.sent[0]).toEqual(['REQ', 'n1', { ...filter, limit: 0 }]);
    expect(next.sent[1]!.slice(0, 3)).toEqual(['NEG-OPEN', 'x1', filter]);
    await refuse(next.hear, 'x1', clock);
    await until(() => next.sent.length >= 4);
    expect(next.sent.slice(2)).toEqual([
      ['NEG-CLOSE', 'x1'],
      ['REQ', 'n1', filter],
    ]);
    await set.close();
  });
});

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate);
}
