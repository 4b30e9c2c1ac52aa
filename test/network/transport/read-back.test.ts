import type { SignedEvent } from 'nostrain/network';
import { expect, test } from 'vitest';
import { answerAll, openOne, PUBLIC, sentWith } from '../../support/one-relay.ts';
import { eventOf } from '../../support/signers.ts';

type One = ReturnType<typeof openOne>;

const options = { eventsPerMinute: 0 };

async function publish({ clock, sockets, set }: One, event: SignedEvent, words = '') {
  const publishing = set.publish(event);
  await clock.advance(0);
  sockets.latest().hear('OK', event.id, true, words);
  return (await publishing)[0]!;
}

/** The ids asked for so far. */
const asked = ({ sockets }: One) =>
  sentWith(sockets.latest(), 'REQ').map(([, , filter]) => (filter as { ids: string[] }).ids[0]);

/** Lets the question come and answers it. */
async function answer({ clock, sockets }: One, reply: 'EOSE' | 'CLOSED' | SignedEvent) {
  await clock.advance(2000);
  const socket = sockets.latest();
  const name = sentWith(socket, 'REQ').at(-1)![1];
  if (typeof reply === 'object') socket.hear('EVENT', name, reply);
  else socket.hear(reply, name, 'error: no');
  await clock.advance(0);
}

test('the first of each kind is asked back, and about one in twenty', async () => {
  let drawn = 0;
  const one = openOne(PUBLIC, { ...options, random: () => (drawn++ % 20) / 20 });
  const events = Array.from({ length: 41 }, (_, i) => eventOf(`${i}`));
  for (const event of events) {
    await publish(one, event);
    const before = asked(one).length;
    await one.clock.advance(2000);
    if (asked(one).length > before) await answer(one, event);
  }
  // each publish draws once: the 0th and the 20th draw are under 1/20, and with them the first event
  expect(asked(one)).toEqual([0, 20, 40].map((i) => events[i]!.id));
  expect(one.status()).toMatchObject({ stores: 'yes', missing: 0 });
  const second = eventOf('other', { kind: 1001 });
  await publish(one, second);
  await one.clock.advance(2000);
  expect(asked(one).at(-1)).toBe(second.id);
  await one.set.close();
  expect(one.clock.pending).toBe(0);
});

/** Two events are missing after this. */
async function loseTwo(one: One) {
  for (const name of ['a', 'b']) {
    await publish(one, eventOf(name));
    await answer(one, 'EOSE');
  }
  expect(one.status()).toMatchObject({ stores: 'no', missing: 2 });
}

/** Sends an event that the relay accepts; the outcome follows once it was read back. */
async function begin({ clock, sockets, set }: One, event: SignedEvent, words = '') {
  const publishing = set.publish(event);
  await clock.advance(0);
  sockets.latest().hear('OK', event.id, true, words);
  return publishing.then(([outcome]) => outcome!);
}

test('after two missing in a row an accepted event counts once it was read back', async () => {
  const one = openOne(PUBLIC, options);
  expect(await publish(one, eventOf('before'))).not.toHaveProperty('kept');
  await answer(one, 'EOSE');
  expect(one.status()).toMatchObject({ stores: 'unknown', missing: 1 });
  await publish(one, eventOf('other'));
  await answer(one, 'EOSE');
  expect(one.status()).toMatchObject({ stores: 'no', missing: 2 });
  const lost = begin(one, eventOf('c'), 'welcome');
  await answer(one, 'EOSE');
  expect(await lost).toMatchObject({
    status: 'accepted',
    kept: false,
    message: 'welcome; this relay accepts events and does not store them, 3 were missing',
  });
  const stored = begin(one, eventOf('d'));
  await answer(one, eventOf('d'));
  expect(await stored).not.toHaveProperty('kept');
  expect(one.status().stores).toBe('yes');
  expect(await publish(one, eventOf('e'))).not.toHaveProperty('kept');
  await one.set.close();
});

test('at a relay that lost two, no answer is no proof, and a replaced event is no loss', async () => {
  const one = openOne(PUBLIC, options);
  await loseTwo(one);
  const unknown = begin(one, eventOf('c'));
  await answer(one, 'CLOSED');
  expect(await unknown).toMatchObject({ kept: false });
  const older = begin(one, eventOf('old', { kind: 30_001 }));
  const newer = begin(one, eventOf('new', { kind: 30_001, created_at: 1_700_000_001 }));
  await one.clock.advance(2000);
  const asking = sentWith(one.sockets.latest(), 'REQ').slice(-2);
  for (const [, name] of asking) one.sockets.latest().hear('EOSE', name);
  expect(await older).not.toHaveProperty('kept');
  expect(await newer).toMatchObject({ kept: false });
  expect(await publish(one, eventOf('passing', { kind: 20_001 }))).not.toHaveProperty('kept');
  await one.set.close();
});

test('a relay that has the event although its answer is missing stores events again', async () => {
  const one = openOne(PUBLIC, options);
  await loseTwo(one);
  const event = eventOf('c');
  const publishing = one.set.publish(event);
  await one.clock.advance(10_000);
  await answer(one, event);
  expect((await publishing)[0]).toMatchObject({ status: 'accepted' });
  expect((await publishing)[0]).not.toHaveProperty('kept');
  expect(one.status().stores).toBe('yes');
  await one.set.close();
});

test('no answer is no proof, nor is a refusal to answer', async () => {
  const one = openOne(PUBLIC, options);
  await publish(one, eventOf('a'));
  await answer(one, 'CLOSED');
  await publish(one, eventOf('b', { kind: 1001 }));
  await one.clock.advance(10_000);
  await publish(one, eventOf('c', { kind: 1002 }));
  one.sockets.latest().drop();
  await one.clock.advance(10_000);
  expect(one.status()).toMatchObject({ stores: 'unknown', missing: 0 });
  await one.set.close();
});

test('ephemeral events are never asked for', async () => {
  const one = openOne(PUBLIC, options);
  await publish(one, eventOf('a', { kind: 20_001 }));
  await one.clock.advance(10_000);
  expect(asked(one)).toEqual([]);
  await one.set.close();
});

test('an event that a newer one may have replaced is not missed', async () => {
  const one = openOne(PUBLIC, options);
  await publish(one, eventOf('a', { kind: 30_001 }));
  await publish(one, eventOf('b', { kind: 30_001, created_at: 1_700_000_001 }));
  await answer(one, 'EOSE');
  expect(one.status().missing).toBe(0);
  await one.set.close();
});

test('closing ends what is under way', async () => {
  const one = openOne(PUBLIC, options);
  await publish(one, eventOf('a'));
  expect(one.clock.pending).toBe(1);
  await one.set.close();
  await one.clock.advance(0);
  expect(one.clock.pending).toBe(0);
  answerAll(one.sockets.latest(), true);
});
