/** Relay selection: which relays each worker reads. */

import { createRelaySet, relaysOfKey } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf } from '../../support/signers.ts';

const relays = Array.from({ length: 10 }, (_, i) => `wss://relay${i}.example`);
const keys = Array.from({ length: 200 }, (_, i) => i.toString(16).padStart(64, '0'));

describe('relays shared out by rendezvous hashing', () => {
  it('selects the requested number per key, in the order of the list', () => {
    const own = relaysOfKey(relays, keys[0]!, 3);
    expect(own).toHaveLength(3);
    expect(own).toEqual(relays.filter((relay) => own.includes(relay)));
    expect(relaysOfKey(relays, keys[0]!, 0)).toEqual(relays);
    expect(relaysOfKey(relays, keys[0]!, 12)).toEqual(relays);
  });

  it('gives relays about as many keys each', () => {
    const counts = relays.map(
      (relay) => keys.filter((key) => relaysOfKey(relays, key, 2).includes(relay)).length,
    );
    // 40 on average
    expect(Math.min(...counts)).toBeGreaterThan(22);
    expect(Math.max(...counts)).toBeLessThan(60);
  });

  it('moves only what a relay had that goes', () => {
    const gone = relays[4]!;
    const left = relays.filter((relay) => relay !== gone);
    for (const key of keys) {
      const before = relaysOfKey(relays, key, 2);
      const after = relaysOfKey(left, key, 2);
      expect(before.filter((relay) => relay !== gone).every((relay) => after.includes(relay))).toBe(
        true,
      );
    }
  });
});

const URLS = ['ws://a.test', 'ws://b.test', 'ws://c.test'];

describe('a set that reads some of its relays', () => {
  const open = (onAttempt = (socket: FakeSocket, _index: number) => socket.accept()) => {
    const clock = createManualClock();
    const sockets = createFakeSockets(onAttempt);
    const set = createRelaySet(URLS, {
      ...{ openSocket: sockets.openSocket, clock, readRelays: () => ['ws://b.test'] },
      retry: { maxAttempts: 3, initialMs: 100, maxMs: 1000, multiplier: 2, jitter: 'none' },
    });
    const states = () => set.status().map(({ state }) => state);
    return { clock, sockets, set, states };
  };

  it('connects to those, subscribes to those, and to all others when it sends something', async () => {
    const { clock, sockets, set, states } = open();
    set.subscribe([{ kinds: [1000] }], { onEvent: () => undefined });
    await set.ready();
    expect(sockets.attempts.map(({ url }) => url)).toEqual(['ws://b.test']);
    expect(sockets.latest().sent).toEqual([['REQ', 'n1', { kinds: [1000] }]]);
    const event = eventOf('to all');
    const sent = set.publish(event);
    await clock.advance(0);
    expect(states()).toEqual(['open', 'open', 'open']);
    for (const socket of sockets.attempts) socket.hear('OK', event.id, true, '');
    expect((await sent).map(({ status }) => status)).toEqual(['accepted', 'accepted', 'accepted']);
    await clock.advance(1000);
    expect(states()).toEqual(['idle', 'open', 'idle']);
    expect(sockets.attempts).toHaveLength(3);
    await set.close();
  });

  it('keeps a connection while more is to be sent, and opens a new one later', async () => {
    const { clock, sockets, set, states } = open((socket) => {
      socket.accept();
      socket.send = (text) => {
        const [type, event] = JSON.parse(text);
        if (type === 'EVENT') socket.hear('OK', event.id, true, '');
      };
    });
    await set.publish(eventOf('first'));
    await clock.advance(300);
    await set.publish(eventOf('second'));
    await clock.advance(300);
    expect(states()).toEqual(['open', 'open', 'open']);
    await clock.advance(300);
    expect(states()).toEqual(['idle', 'open', 'idle']);
    await set.publish(eventOf('third'));
    expect(sockets.attempts.map(({ url }) => url.slice(5, 6)).join('')).toBe('bacac');
    await set.close();
  });

  it('tries a full one again for as long as others need to leave', async () => {
    const { clock, sockets, set } = open((socket, index) =>
      index > 0 && index < 7 && socket.url === 'ws://a.test' ? socket.refuse() : socket.accept(),
    );
    const event = eventOf('patient');
    const outcomes = set.send(event);
    const first = outcomes[0]!.then(({ status, attempts }) => ({ status, attempts }));
    for (let i = 0; i < 20; i++) {
      await clock.advance(500);
      for (const socket of sockets.attempts) socket.hear('OK', event.id, true, '');
    }
    expect((await first).status).toBe('accepted');
    await set.close();
  });

  it('asks another relay by name, and leaves it when it is through', async () => {
    const { clock, sockets, set, states } = open();
    await set.ready();
    const asked = set.query([{ ids: ['00'] }], { waitMs: 5000, only: ['ws://c.test'] });
    await clock.advance(0);
    sockets.latest().hear('EOSE', sockets.latest().sent[0]![1]);
    expect(await asked).toEqual({ events: [], answered: ['ws://c.test'], unanswered: [] });
    await clock.advance(1000);
    expect(states()).toEqual(['idle', 'open', 'idle']);
    await set.close();
  });
});
