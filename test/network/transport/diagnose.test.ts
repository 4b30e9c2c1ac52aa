import type { RetryPolicy } from 'nostrain/base';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { clockNotice, diagnosePublish } from '../../../src/network/transport/delivery.ts';
import { createFakeSockets, type FakeSocket } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf } from '../../support/signers.ts';

const [A, B] = ['wss://a.test', 'wss://b.test'];
const retry: RetryPolicy = {
  maxAttempts: 1,
  initialMs: 0,
  maxMs: 0,
  multiplier: 1,
  jitter: 'none',
};
const event = eventOf('payload');

type Behave = (socket: FakeSocket, event: SignedEvent) => void;

const says =
  (accepted: boolean, message: string): Behave =>
  (socket, { id }) =>
    socket.hear('OK', id, accepted, message);

/** Publishes once to relays that behave so (one that does nothing is silent), and says what a person reads. */
async function read(behaviors: Readonly<Record<string, Behave | 'gone'>>, sent = event) {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) =>
    behaviors[socket.url] === 'gone' ? socket.refuse('connect ECONNREFUSED') : socket.accept(),
  );
  const urls = Object.keys(behaviors);
  const random = () => 0.5;
  const set = createRelaySet(urls, { openSocket: sockets.openSocket, clock, retry, random });
  const publishing = set.publish(sent);
  await clock.advance(0);
  for (const socket of sockets.attempts) {
    const behave = behaviors[socket.url];
    if (behave !== 'gone') behave?.(socket, sent);
  }
  await clock.advance(14_000);
  const outcomes = await publishing;
  const lines = diagnosePublish(set.status(), outcomes);
  const notice = clockNotice(set.status());
  await set.close();
  return { lines, notice };
}

const line = async (behave: Behave | 'gone', sent?: SignedEvent) =>
  (await read({ [A]: behave }, sent)).lines[0];

test('taken', async () => {
  expect(await line(says(true, ''))).toBe('wss://a.test accepted it');
});

describe('refused', () => {
  test.each([
    [
      'blocked: kind 1000 is not taken here',
      'wss://a.test does not accept this kind of event (blocked: kind 1000 is not taken here); use another relay for such events',
    ],
    [
      'restricted: members only',
      'wss://a.test does not accept this kind of event (restricted: members only); use another relay for such events',
    ],
    [
      'invalid: unknown tag',
      'wss://a.test calls the event invalid (invalid: unknown tag); its rules are stricter than ours: use another relay, and report this line',
    ],
    ['mute: nobody listens', 'wss://a.test refused it (mute: nobody listens); use another relay'],
    [
      'error: disk full',
      'wss://a.test refused it (error: disk full); try again later, or add another relay',
    ],
    [
      'invalid: event too large',
      'wss://a.test does not accept an event of this size (invalid: event too large); send smaller events, or use a relay with a higher limit',
    ],
    [
      'auth-required: sign in first',
      'wss://a.test requires authentication (auth-required: sign in first); use a key that this relay admits, or another relay',
    ],
    [
      'pow: difficulty 3 is less than 16',
      'wss://a.test requires proof of work (pow: difficulty 3 is less than 16); only events up to 2048 bytes get it: use another relay for larger ones',
    ],
    [
      'pow: 28 bits needed',
      'wss://a.test requires proof of work (pow: 28 bits needed); we do at most 20 bits: use another relay',
    ],
    [
      'blocked: \u001b[31m\u202egod\u2028\nlike\u0000',
      'wss://a.test does not accept this kind of event (blocked: [31m god like); use another relay for such events',
    ],
    [
      `blocked: ${'x'.repeat(400)}`,
      `wss://a.test does not accept this kind of event (blocked: ${'x'.repeat(151)}…); use another relay for such events`,
    ],
  ])('%j', async (words, expected) => {
    expect(await line(says(false, words))).toBe(expected);
  });

  test('by all, each with its own words', async () => {
    const { lines } = await read({
      [A]: says(false, 'blocked: no'),
      [B]: says(false, 'invalid: never'),
    });
    expect(lines).toEqual([
      'wss://a.test does not accept this kind of event (blocked: no); use another relay for such events',
      'wss://b.test calls the event invalid (invalid: never); its rules are stricter than ours: use another relay, and report this line',
    ]);
  });
});

test('too large before it is sent', async () => {
  expect(await line(says(true, ''), eventOf('x'.repeat(70_000)))).toBe(
    'wss://a.test does not accept an event of this size (too large: the event has 70345 bytes, this relay takes 65536); send smaller events, or use a relay with a higher limit',
  );
});

test('one throttles', async () => {
  const { lines } = await read({
    [A]: says(false, 'rate-limited: at most 5 a minute'),
    [B]: says(true, ''),
  });
  expect(lines).toEqual([
    'wss://a.test asks us to slow down (rate-limited: at most 5 a minute); send less often, or add relays',
    'wss://b.test accepted it',
  ]);
});

test('unreachable', async () => {
  expect(await line('gone')).toBe(
    'wss://a.test could not be reached (connect ECONNREFUSED); check the address, and that a relay listens there',
  );
});

test('no answer', async () => {
  expect(await line(() => {})).toBe(
    'wss://a.test neither accepted nor refused it (no answer in time); try again later, or add another relay',
  );
});

describe('a clock that is off by an hour', () => {
  const early = says(false, 'invalid: created_at too early');
  const notice = 'your clock seems to be off: set it, best by NTP';
  const refuses = (url: string, next: string) =>
    `${url} refuses the date of the event (invalid: created_at too early); ${next}`;

  test('is seen by two relays, or by the only one', async () => {
    expect(await read({ [A]: early, [B]: early })).toEqual({
      lines: [refuses(A, notice), refuses(B, notice)],
      notice,
    });
    expect(await read({ [A]: early })).toEqual({ lines: [refuses(A, notice)], notice });
  });

  test('may be that of the one relay that complains', async () => {
    expect(await read({ [A]: early, [B]: says(true, '') })).toEqual({
      lines: [
        refuses(A, 'no other relay says so: its clock may be off'),
        'wss://b.test accepted it',
      ],
      notice: undefined,
    });
  });
});

test('none stores', async () => {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const set = createRelaySet([A, B], { openSocket: sockets.openSocket, clock, retry });
  const publish = async (sent: SignedEvent, question: number) => {
    const publishing = set.publish(sent);
    await clock.advance(0);
    for (const socket of sockets.attempts) socket.hear('OK', sent.id, true, '');
    await clock.advance(2000);
    for (const socket of sockets.attempts) socket.hear('EOSE', `q${question}`);
    return publishing;
  };
  for (const i of [1, 2]) await publish(eventOf(`${i}`), i);
  expect(diagnosePublish(set.status(), await publish(event, 3))).toEqual(
    [A, B].map(
      (url) =>
        `${url} accepts events and loses them (this relay accepts events and does not store them, 3 were missing); do not rely on it: use another relay`,
    ),
  );
  await set.close();
});
