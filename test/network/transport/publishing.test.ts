import type { RetryPolicy } from 'nostrain/base';
import { createRelaySet, type RelaySet, type RelaySetOptions } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf } from '../../support/signers.ts';

const URL_A = 'ws://a.test';
const retry: RetryPolicy = {
  maxAttempts: 4,
  initialMs: 250,
  maxMs: 2000,
  multiplier: 2,
  jitter: 'none',
};
const event = eventOf('payload');
const ok = (socket: FakeSocket, accepted: boolean, message: string, id = event.id) =>
  socket.hear('OK', id, accepted, message);

function open(
  onAttempt: (socket: FakeSocket, index: number) => void = (socket) => socket.accept(),
  options: Partial<RelaySetOptions> = {},
) {
  const clock = createManualClock();
  const sockets = createFakeSockets(onAttempt);
  const set: RelaySet = createRelaySet([URL_A], {
    openSocket: sockets.openSocket,
    clock,
    retry,
    ...options,
  });
  return { clock, sockets, set };
}

/** Publishes to a relay that gives this answer, and lets enough time pass for every retry. */
async function answered(accepted: boolean, message: string) {
  const { clock, sockets, set } = open();
  const outcome = set.publish(event, { skipWhenBusy: true });
  for (let i = 0; i < 5; i++) {
    await clock.advance(2000);
    ok(sockets.latest(), accepted, message);
  }
  const [result] = await outcome;
  await set.close();
  return result!;
}

describe('retries', () => {
  test('a relay that refuses two connections gets the event at the third, after 0.25 and 0.5 s', async () => {
    const { clock, sockets, set } = open((socket, i) =>
      i < 2 ? socket.refuse() : socket.accept(),
    );
    const started = clock.now();
    const publishing = set.publish(event);
    await clock.advance(249);
    expect(sockets.attempts).toHaveLength(1);
    await clock.advance(1);
    expect(sockets.attempts).toHaveLength(2);
    await clock.advance(500);
    expect(sockets.attempts).toHaveLength(3);
    ok(sockets.latest(), true, '');
    expect(await publishing).toEqual([
      { relay: URL_A, status: 'accepted', message: '', attempts: 3, delaysMs: [250, 500] },
    ]);
    expect(clock.now() - started).toBe(750);
    await set.close();
  });

  test('gives up after the last attempt, then at once while the relay stays away', async () => {
    const { clock, set } = open((socket) => socket.refuse('connect ECONNREFUSED'));
    const publishing = set.publish(event);
    await clock.advance(1750);
    expect(await publishing).toEqual([
      {
        relay: URL_A,
        status: 'unreachable',
        message: 'connect ECONNREFUSED',
        attempts: 4,
        delaysMs: [250, 500, 1000],
      },
    ]);
    expect((await set.publish(event))[0]).toMatchObject({ status: 'unreachable', attempts: 0 });
    await set.close();
  });

  test('an attempt that hangs is given up and counts', async () => {
    const { clock, sockets, set } = open((socket, i) => i > 0 && socket.accept());
    const publishing = set.publish(event);
    await clock.advance(10_250);
    ok(sockets.latest(), true, '');
    expect((await publishing)[0]).toMatchObject({ attempts: 2, delaysMs: [250] });
    await set.close();
  });

  test('a connection lost before the answer is made again and the same event sent again', async () => {
    const { clock, sockets, set } = open();
    const publishing = set.publish(event);
    await clock.advance(0);
    sockets.latest().drop();
    await clock.advance(250);
    expect(sockets.latest().sent).toEqual([['EVENT', event]]);
    ok(sockets.latest(), true, '');
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', attempts: 2 });
    await set.close();
  });

  test('what a relay hung up on did not use its rate: neither a later try nor another event waits', async () => {
    const { clock, sockets, set } = open(
      (socket, i) => {
        socket.accept();
        if (i < 2) queueMicrotask(() => socket.drop());
      },
      { eventsPerMinute: 1 },
    );
    const first = set.publish(event);
    await clock.advance(1000);
    expect(sockets.attempts).toHaveLength(3);
    ok(sockets.latest(), true, '');
    expect((await first)[0]).toMatchObject({ status: 'accepted', attempts: 3 });
    await set.close();

    const away = open((socket, i) => (i < 4 ? socket.refuse() : socket.accept()), {
      eventsPerMinute: 1,
    });
    const lost = away.set.publish(event);
    await away.clock.advance(2000);
    expect((await lost)[0]!.status).toBe('unreachable');
    await away.clock.advance(1000);
    const second = away.set.publish(event);
    await away.clock.advance(0);
    ok(away.sockets.latest(), true, '');
    expect((await second)[0]!.status).toBe('accepted');
    await away.set.close();
  });

  test('error: is tried again, each time after a longer wait', async () => {
    expect(await answered(false, 'error: busy')).toEqual({
      relay: URL_A,
      status: 'refused',
      message: 'error: busy',
      attempts: 4,
      delaysMs: [250, 500, 1000],
    });
  });

  test('an abort rejects with its reason, wherever the publish stands', async () => {
    const { clock, set } = open();
    const stop = new AbortController();
    const publishing = set.publish(event, { signal: stop.signal });
    await clock.advance(0);
    stop.abort(new Error('enough'));
    await expect(publishing).rejects.toThrow('enough');
    await expect(set.publish(event, { signal: stop.signal })).rejects.toThrow('enough');
    await set.close();
  });

  test('closing ends what is under way', async () => {
    const { clock, set } = open();
    const publishing = set.publish(event);
    await clock.advance(0);
    await set.close();
    expect((await publishing)[0]).toMatchObject({ status: 'unreachable', message: 'closed' });
    expect((await set.publish(event))[0]!.status).toBe('unreachable');
    expect(clock.pending).toBe(0);
  });
});

describe('silence', () => {
  test('is success when the relay turns out to have the event', async () => {
    const { clock, sockets, set } = open();
    const publishing = set.publish(event);
    await clock.advance(10_100);
    const socket = sockets.latest();
    expect(socket.sent[1]).toEqual(['REQ', 'q1', { ids: [event.id], limit: 1 }]);
    socket.hear('EVENT', 'q1', event);
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', attempts: 1 });
    expect(socket.sent.at(-1)).toEqual(['CLOSE', 'q1']);
    await set.close();
  });

  test('is no verdict when it does not, after sending again', async () => {
    const { clock, sockets, set } = open();
    const publishing = set.publish(event);
    for (let i = 1; i <= 4; i++) {
      await clock.advance(12_000);
      sockets.latest().hear('EOSE', `q${i}`);
    }
    expect((await publishing)[0]).toMatchObject({ status: 'no-verdict', attempts: 4 });
    expect(sockets.latest().sent.filter(([verb]) => verb === 'EVENT')).toHaveLength(4);
    await set.close();
  });
});

describe('verdicts', () => {
  test.each([
    [true, '', 'accepted'],
    [true, 'duplicate: have it', 'accepted'],
    [false, 'duplicate: have it', 'accepted'],
    [false, 'we already have this event', 'accepted'],
    [false, 'Replaced: have newer', 'accepted'],
    [false, 'deleted: by its author', 'refused'],
    [false, 'rate-limited: slow', 'throttled'],
    [false, 'rate-limit: slow', 'throttled'],
    [false, 'please slow down', 'throttled'],
    [false, 'pow: 20 bits', 'pow-needed'],
    [false, 'auth-required: sign in', 'auth-needed'],
    [false, 'restricted: members', 'refused'],
    [false, 'blocked: kind 1000', 'refused'],
    [false, 'mute: nobody listens', 'refused'],
    [false, 'invalid: event too large', 'refused'],
    [false, 'invalid: created_at too early', 'refused'],
    [false, 'invalid: bad tag', 'malformed'],
    [false, 'constructor: odd', 'refused'],
  ])('OK %s %j is %s', async (accepted, message, status) => {
    const result = await answered(accepted, message);
    expect(result).toMatchObject({ status, message });
    const isTransient = message.startsWith('constructor');
    expect(result.attempts).toBe(isTransient ? 4 : 1);
  });

  test('what a relay does not want is not sent again: its kind, its size, its pause', async () => {
    const { clock, sockets, set } = open();
    const publish = async (content: string, kind: number, answer?: string) => {
      const sent = eventOf(content, { kind });
      const publishing = set.publish(sent, { skipWhenBusy: true });
      await clock.advance(0);
      if (answer !== undefined) ok(sockets.latest(), false, answer, sent.id);
      return (await publishing)[0]!;
    };
    await publish('a', 1001, 'blocked: kind');
    expect(await publish('b', 1001)).toMatchObject({ status: 'refused', attempts: 0 });
    await publish('x'.repeat(2000), 1002, 'invalid: event too large');
    expect(await publish('y'.repeat(2000), 1002)).toMatchObject({ status: 'refused', attempts: 0 });
    await publish('small', 1002, 'rate-limited: wait');
    expect(await publish('next', 1002)).toMatchObject({ status: 'throttled', attempts: 0 });
    await clock.advance(90_000);
    const later = set.publish(event);
    await clock.advance(0);
    ok(sockets.latest(), true, '');
    expect((await later)[0]!.status).toBe('accepted');
    await set.close();
  });

  test.each([
    ['a notice of size', (socket: FakeSocket) => socket.hear('NOTICE', 'message too large')],
    ['a hang-up for size', (socket: FakeSocket) => socket.drop(1009)],
  ])('%s instead of an OK is a refusal', async (_, respond) => {
    const { clock, sockets, set } = open();
    const publishing = set.publish(event);
    await clock.advance(0);
    respond(sockets.latest());
    expect((await publishing)[0]).toMatchObject({ status: 'refused', attempts: 1 });
    await set.close();
  });
});

test('a full socket is given time before the next event', async () => {
  const { clock, sockets, set } = open();
  await clock.advance(0);
  const socket = sockets.latest();
  socket.bufferedAmount = (1 << 20) + 1;
  const publishing = set.publish(event);
  await clock.advance(100);
  expect(socket.sent).toEqual([]);
  socket.bufferedAmount = 0;
  await clock.advance(10);
  expect(socket.sent).toEqual([['EVENT', event]]);
  ok(socket, true, '');
  await publishing;
  await set.close();
});
