/** A collection ends and uses little memory, whatever a relay sends. */

import { createRelaySet, defaultQuota, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { collectGradientEvents as collectGradients, type GradientsQuery } from 'nostrain/python';
import { expect, it } from 'vitest';
import { EventSlots } from '../../../src/python/collect/collect.ts';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { forgedTwin, signerOf } from '../../support/signers.ts';
import { gradientEvent } from '../support/reference-events.ts';

const retry = { initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' } as const;
const query: GradientsQuery = {
  ...{ run: 'demo', round: 0, sync: 'timeout', discover: false },
  ...{ idleMs: 2000, maxMs: 60_000 },
  heartbeats: { idleMs: 2000, maxMissed: 3 },
};

/** Collects from a relay that repeats these messages every 500 ms after the REQ; resolves with the time of its end. */
async function flooded(
  say: (socket: FakeSocket, name: string, tick: number) => void,
  { maxAttempts = 1, ...changes }: Partial<GradientsQuery> & { maxAttempts?: number } = {},
) {
  const clock = createManualClock();
  const startMs = clock.now();
  const sockets = createFakeSockets((socket) => socket.accept());
  const quota = { ...defaultQuota, faultsPerMinute: 10_000 };
  const open = (url: string) =>
    createRelaySet([url], {
      ...{ openSocket: sockets.openSocket, clock, quota, crypto: nativeCrypto },
      retry: { ...retry, maxAttempts },
    });
  const signal = new AbortController().signal;
  const collecting = collectGradients(
    ['ws://a.test'],
    { ...query, ...changes },
    {
      ...{ open, clock, maxAttempts, signal },
    },
  );
  let isOver = false;
  void collecting.then(() => {
    isOver = true;
  });
  for (let tick = 0; tick < 1000 && !isOver; tick++) {
    await clock.advance(tick === 0 ? 0 : 500);
    const socket = sockets.attempts.at(-1);
    const asked = socket?.sent.findLast(([verb]) => verb === 'REQ');
    if (socket && asked && !isOver) say(socket, asked[1] as string, tick);
  }
  const found = await collecting;
  return { found, tookMs: clock.now() - startMs, reqs: sockets.attempts[0]!.sent };
}

const mine = gradientEvent(signerOf(1));
const other = gradientEvent(signerOf(2), { run: 'other' });

it('ends after the idle timeout when nothing comes', async () => {
  const { found, tookMs } = await flooded((socket, name, tick) => {
    if (tick === 0) socket.hear('EVENT', name, mine);
  });
  expect(found).toMatchObject({ reason: 'idle-timeout', invalid: new Map() });
  expect(found.events).toHaveLength(1);
  expect(tookMs).toBe(2000);
});

it.each([
  ['events of another run', (i: number) => gradientEvent(signerOf(2), { run: 'o', createdAt: i })],
  ['one event over and over', () => other],
  ['an own event over and over', () => mine],
  [
    'events with forged signatures',
    (i: number) => forgedTwin(gradientEvent(signerOf(2), { createdAt: i })),
  ],
  ['events that are none', () => ({ id: 7 })],
])('ends at its deadline under a flood of %s', async (_, make) => {
  const { found, tookMs } = await flooded((socket, name, tick) => {
    if (tick === 0) socket.hear('EVENT', name, mine);
    const made = make(1_600_000_000 + tick);
    for (let i = 0; i < 20; i++) socket.hear('EVENT', name, made);
  });
  expect(tookMs).toBe(60_000);
  expect(found.reason).toBe('deadline');
  expect(found.events.map(({ eventId }) => eventId)).toEqual([mine.id]);
});

it('is not kept awake by notices for longer either, and remembers a bounded number of them', async () => {
  const { found, tookMs } = await flooded(
    (socket) => {
      for (let i = 0; i < 10; i++) socket.hear('NOTICE', `n${i}`);
    },
    { maxMs: 10_000 },
  );
  expect(tookMs).toBe(10_000);
  expect(found.notices).toHaveLength(100);
});

it('counts what is invalid by reason, and does not let it count as a gradient', async () => {
  const named = signerOf(3).sign({ ...gradientEvent(signerOf(1)) });
  const { id: _, sig: __, ...unsigned } = mine;
  const late = gradientEvent(signerOf(4), { createdAt: 1_700_000_000 + 901 });
  const broken = { ...mine, tags: mine.tags.filter(([name]) => name !== 'round') };
  const bad = [forgedTwin(mine), named, unsigned, late, signerOf(1).sign(broken)];
  const { found } = await flooded(
    (socket, name, tick) => {
      if (tick > 0) return;
      for (const event of bad) socket.hear('EVENT', name, event);
      socket.hear('EVENT', name, mine);
      socket.hear('EOSE', name);
    },
    { sync: 'async' },
  );
  expect(Object.fromEntries(found.invalid)).toEqual({
    ...{ 'bad-signature': 1, 'worker-key-mismatch': 1, unsigned: 1, 'from-the-future': 1 },
    malformed: 1,
  });
  expect(found).toMatchObject({ reason: 'async', duplicates: 0 });
  expect(found.events).toHaveLength(1);
});

it('discards duplicates: the newest of a worker counts, of one second the lowest id', async () => {
  const deltas = [1, 2, 3].map((examples) => gradientEvent(signerOf(1), {}, { examples }));
  const [lowest] = deltas.map(({ id }) => id).sort();
  const newer = gradientEvent(signerOf(2), { createdAt: 1_700_000_001 });
  const sent = [...deltas, newer, gradientEvent(signerOf(2)), deltas[0]!, newer];
  for (const events of [sent, [...sent].reverse()]) {
    const { found } = await flooded(
      (socket, name, tick) => {
        if (tick > 0) return;
        for (const event of events) socket.hear('EVENT', name, event);
        socket.hear('EOSE', name);
      },
      { sync: 'async' },
    );
    const workers = [signerOf(1), signerOf(2)].map(({ publicKey }) => publicKey);
    expect(new Set(found.events.map(({ eventId }) => eventId))).toEqual(
      new Set([lowest, newer.id]),
    );
    expect(found.events.map(({ read }) => read.tags.worker)).toEqual([...workers].sort());
    expect(found.duplicates).toBe(5);
  }
});

it('ends when the relay closes the subscription, and fails when it hangs up', async () => {
  const closed = await flooded((socket, name) => socket.hear('CLOSED', name, 'blocked: no'));
  expect(closed.found).toMatchObject({ reason: 'relay-closed', failed: [] });
  const { found } = await flooded((socket) => socket.drop(), { maxAttempts: 3 });
  expect(found.events).toEqual([]);
  expect(found.failed).toMatchObject([{ attempts: 3, operation: 'collect-gradients' }]);
});

it('stops at the limit', async () => {
  const { found, tookMs } = await flooded(
    (socket, name, tick) => socket.hear('EVENT', name, gradientEvent(signerOf(tick + 1))),
    { limit: 3 },
  );
  expect(found.events).toHaveLength(3);
  expect(found.reason).toBe('limit');
  expect(tookMs).toBeLessThan(2000);
});

it('accepts no more than the limit of events that arrive at once', async () => {
  const events = [1, 2, 3, 4].map((number) => gradientEvent(signerOf(number)));
  const { found } = await flooded(
    (socket, name) => {
      for (const event of events) socket.hear('EVENT', name, event);
    },
    { limit: 2 },
  );
  expect(found.events).toHaveLength(2);
});

it('keeps no more than it may', () => {
  const collector = new EventSlots();
  const beat = { run: 'demo', worker: 'w', round: 0, interval: 1 };
  for (let i = 0; i < 3; i++) {
    expect(collector.isFull).toBe(false);
    const tags = [['d', String(i)]];
    const event: SignedEvent = { ...mine, tags, content: 'x'.repeat(50 << 20) };
    collector.keep({ ...{ event, eventId: String(i), createdAt: i }, read: { type: 'heartbeat', event, tags: beat } }); // biome-ignore format: one line
  }
  expect(collector.isFull).toBe(true);
});
