import { expect, test } from 'vitest';
import { Conversation } from '../../src/probe/conversation.ts';
import { createFakeSockets, type FakeSocket } from '../support/fake-sockets.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { eventOf } from '../support/signers.ts';

const event = eventOf('x');
const clock = createManualClock();

async function open(onAttempt: (socket: FakeSocket) => void = (socket) => socket.accept()) {
  const sockets = createFakeSockets(onAttempt);
  const { signal } = new AbortController();
  const { openSocket } = sockets;
  const opening = Conversation.open('ws://x', { openSocket, clock, signal, openTimeoutMs: 5000 });
  return { opening, socket: () => sockets.latest() };
}

async function opened() {
  const { opening, socket } = await open();
  const conversation = await opening;
  if (typeof conversation === 'string') throw new Error(conversation);
  return { conversation, socket: socket() };
}

test('a connection that is refused or never opens is a reason, not an error', async () => {
  const { opening } = await open((socket) => socket.refuse('ECONNREFUSED'));
  expect(await opening).toBe('ECONNREFUSED');
  const silent = await open(() => {});
  await clock.advance(5000);
  expect(await silent.opening).toBe('no connection within 5 s');
});

test('only the OK of this event is its answer', async () => {
  const { conversation, socket } = await opened();
  const answer = conversation.publish(event, 1000);
  socket.hear('NOTICE', 'welcome');
  socket.hear('OK', 'f'.repeat(64), true, '');
  socket.hear('OK', event.id, false, 'blocked: no');
  expect(await answer).toMatchObject({ type: 'ok', accepted: false, message: 'blocked: no' });
});

test('a NOTICE about size or rate is an answer; any other NOTICE is quoted when the relay stays silent', async () => {
  const { conversation, socket } = await opened();
  const large = conversation.publish(event, 1000);
  socket.hear('NOTICE', 'message too large (2 > 1)');
  expect(await large).toEqual({ type: 'notice', message: 'message too large (2 > 1)' });
  const silent = conversation.publish(event, 1000);
  socket.hear('NOTICE', 'you are not on the list');
  await clock.advance(1000);
  expect(await silent).toEqual({ type: 'silent', message: 'you are not on the list' });
});

test('what is found ends with EOSE, CLOSED, silence or the connection', async () => {
  const { conversation, socket } = await opened();
  const ask = () => conversation.ask({ ids: [event.id] }, 1000);
  const found = ask();
  socket.hear('EVENT', 'ask0', { id: 'of another subscription' });
  socket.hear('EVENT', 'ask1', event);
  socket.hear('EOSE', 'ask1');
  expect(await found).toEqual({ events: [event], end: 'eose', message: '' });
  const closed = ask();
  socket.hear('CLOSED', 'ask2', 'restricted: no');
  expect(await closed).toEqual({ events: [], end: 'closed', message: 'restricted: no' });
  const silent = ask();
  await clock.advance(1000);
  expect(await silent).toMatchObject({ end: 'silent' });
  const gone = ask();
  socket.drop(1006);
  expect(await gone).toMatchObject({ end: 'gone' });
  expect(conversation.isOpen).toBe(false);
  expect(await conversation.publish(event, 1000)).toMatchObject({ type: 'gone', code: 1006 });
});

test('a relay that sends more than it was asked for is left', async () => {
  const { conversation, socket } = await opened();
  const answer = conversation.publish(event, 1000);
  socket.hearText('[]', (1 << 20) + 1);
  expect(await answer).toMatchObject({ type: 'gone', message: 'sends more than it was asked for' });
  const patient = await opened();
  const other = patient.conversation.publish(event, 1000);
  for (let i = 0; i < 17; i++) patient.socket.hearText('["NOTICE","hello"]', 1 << 20);
  expect(await other).toMatchObject({ type: 'gone' });
});
