import { type SignedEvent, verifyEvent } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import type { FakeSocket } from '../../support/fake-sockets.ts';
import { openOne, PUBLIC, sentWith } from '../../support/one-relay.ts';
import { eventOf, signerOf } from '../../support/signers.ts';

const auth = signerOf(1);
const event = eventOf('payload');
const other = eventOf('other');

/** The AUTH events sent over this socket. */
const proofs = (socket: FakeSocket) =>
  sentWith(socket, 'AUTH').map(([, sent]) => sent as SignedEvent);
const refuses = (socket: FakeSocket, { id }: SignedEvent) =>
  socket.hear('OK', id, false, 'auth-required: who are you?');

describe('publishing', () => {
  test('one AUTH per challenge, then every event refused before goes out again', async () => {
    const { clock, sockets, set, status } = openOne(PUBLIC, { auth });
    const publishing = Promise.all([set.publish(event), set.publish(other)]);
    await clock.advance(0);
    const socket = sockets.latest();
    socket.hear('AUTH', 'prove it');
    for (const each of [event, other]) refuses(socket, each);
    await clock.advance(0);
    const [proof, ...more] = proofs(socket);
    expect(more).toEqual([]);
    expect(verifyEvent(proof!)).toMatchObject({ ok: true });
    expect(proof).toMatchObject({
      kind: 22_242,
      pubkey: auth.publicKey,
      created_at: Math.floor(clock.now() / 1000),
      tags: [
        ['relay', PUBLIC],
        ['challenge', 'prove it'],
      ],
      content: '',
    });
    socket.hear('AUTH', 'prove it');
    socket.hear('OK', proof!.id, true, '');
    await clock.advance(0);
    expect(sentWith(socket, 'EVENT')).toHaveLength(4);
    for (const each of [event, other]) socket.hear('OK', each.id, true, '');
    expect((await publishing).map(([outcome]) => outcome!.status)).toEqual([
      'accepted',
      'accepted',
    ]);
    expect(proofs(socket)).toHaveLength(1);
    expect(status().limits.needsAuth).toBe(true);
    await set.close();
  });

  test('the challenge may come after the refusal', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { auth });
    const publishing = set.publish(event);
    await clock.advance(0);
    const socket = sockets.latest();
    refuses(socket, event);
    await clock.advance(1000);
    expect(proofs(socket)).toEqual([]);
    socket.hear('AUTH', 'late');
    await clock.advance(0);
    socket.hear('OK', proofs(socket)[0]!.id, true, '');
    await clock.advance(0);
    socket.hear('OK', event.id, true, '');
    expect((await publishing)[0]).toMatchObject({ status: 'accepted', attempts: 2 });
    await set.close();
  });

  test.each<[string, (socket: FakeSocket) => void, string]>([
    [
      'is refused',
      (socket) => socket.hear('OK', proofs(socket)[0]!.id, false, 'restricted: not a member'),
      'auth-required: who are you? (restricted: not a member)',
    ],
    ['is not answered', () => {}, 'auth-required: who are you? (no answer to AUTH)'],
    [
      'does not help',
      (socket) => {
        socket.hear('OK', proofs(socket)[0]!.id, true, '');
        setImmediate(() => refuses(socket, event));
      },
      'auth-required: who are you?',
    ],
  ])('an AUTH that %s is the end of it, until the next connection', async (_, answer, message) => {
    const { clock, sockets, set } = openOne(PUBLIC, { auth });
    const publishing = set.publish(event);
    await clock.advance(0);
    const socket = sockets.latest();
    socket.hear('AUTH', 'prove it');
    refuses(socket, event);
    await clock.advance(0);
    answer(socket);
    await clock.advance(10_000);
    expect((await publishing)[0]).toMatchObject({ status: 'auth-needed', message });
    expect((await set.publish(other))[0]).toMatchObject({ status: 'auth-needed', attempts: 0 });
    expect(proofs(socket)).toHaveLength(1);
    socket.drop();
    await clock.advance(1000);
    const again = set.publish(other);
    await clock.advance(0);
    sockets.latest().hear('OK', other.id, true, '');
    expect((await again)[0]!.status).toBe('accepted');
    await set.close();
  });

  test('without a challenge, or with one too long to sign, there is nothing to prove', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { auth });
    const publishing = set.publish(event);
    await clock.advance(0);
    sockets.latest().hear('AUTH', 'x'.repeat(501));
    refuses(sockets.latest(), event);
    await clock.advance(5000);
    expect((await publishing)[0]!.message).toBe(
      'auth-required: who are you? (the relay requires AUTH but sent no challenge)',
    );
    await set.close();
  });

  test('without a key nothing is signed', async () => {
    const { clock, sockets, set } = openOne(PUBLIC);
    const publishing = set.publish(event);
    await clock.advance(0);
    sockets.latest().hear('AUTH', 'prove it');
    refuses(sockets.latest(), event);
    expect((await publishing)[0]).toMatchObject({ status: 'auth-needed', attempts: 1 });
    expect(proofs(sockets.latest())).toEqual([]);
    await set.close();
  });

  test('a connection lost meanwhile is not waited for', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { auth });
    const publishing = set.publish(event);
    await clock.advance(0);
    sockets.latest().hear('AUTH', 'prove it');
    refuses(sockets.latest(), event);
    await clock.advance(0);
    sockets.latest().drop();
    expect((await publishing)[0]!.status).toBe('auth-needed');
    await set.close();
    expect(clock.pending).toBe(0);
  });
});

describe('subscriptions', () => {
  test('closed as auth-required are asked again once after AUTH', async () => {
    const { clock, sockets, set } = openOne(PUBLIC, { auth });
    const lost: string[] = [];
    set.subscribe([{ kinds: [1000] }], {
      onEvent: () => {},
      onLost: (_, message) => void lost.push(message),
    });
    await clock.advance(0);
    const socket = sockets.latest();
    const asked = () => sentWith(socket, 'REQ').filter(([, name]) => name === 'n1').length;
    socket.hear('AUTH', 'prove it');
    socket.hear('CLOSED', 'n1', 'auth-required: who are you?');
    await clock.advance(0);
    expect(asked()).toBe(1);
    socket.hear('OK', proofs(socket)[0]!.id, true, '');
    await clock.advance(0);
    expect([asked(), lost]).toEqual([2, []]);
    for (let i = 0; i < 20; i++) {
      socket.hear('EOSE', 'n1');
      socket.hear('CLOSED', 'n1', 'auth-required: who are you?');
      await clock.advance(0);
    }
    expect([asked(), proofs(socket).length, lost[0]]).toEqual([
      2,
      1,
      'auth-required: who are you?',
    ]);
    await set.close();
  });
});
