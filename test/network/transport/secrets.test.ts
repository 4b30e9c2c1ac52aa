/** Users, passwords and tokens in relay addresses: used to connect, and never shown. */

import { createRelaySet, parseRelayUrls, withoutSecrets } from 'nostrain/network';
import { expect, test } from 'vitest';
import { namesOf } from '../../../src/network/transport/relay-urls.ts';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { eventOf, signerOf } from '../../support/signers.ts';

test.each([
  ['ws://127.0.0.1:7777', 'ws://127.0.0.1:7777'],
  ['WSS://Relay.example.com', 'WSS://Relay.example.com'],
  ['wss://relay.example.com/a/b', 'wss://relay.example.com/a/b'],
  ['wss://user:hunter2@relay.example.com/a', 'wss://relay.example.com/a'],
  ['wss://user:p@ss@relay.example.com', 'wss://relay.example.com/'],
  ['wss://hunter2@relay.example.com', 'wss://relay.example.com/'],
  ['wss:\\\\user:hunter2@relay.example.com', 'wss://relay.example.com/'],
  ['wss:user:hunter2@relay.example.com', 'wss://relay.example.com/'],
  ['wss://relay.example.com/?token=hunter2', 'wss://relay.example.com/'],
  ['wss://relay.example.com:99/x?token=hunter2#hunter2', 'wss://relay.example.com:99/x'],
  ['wss://user:hunter2@', 'wss://'],
  ['user:hunter2@relay?hunter2', '//relay'],
])('%s is said as %s', (url, said) => {
  expect(withoutSecrets(url)).toBe(said);
});

test('relays that differ in their secrets alone have names of their own', () => {
  const names = namesOf(['wss://a.test/?t=1', 'wss://a.test/?t=2', 'wss://b.test']);
  expect([...names.keys()]).toEqual(['wss://a.test/', 'wss://a.test/#2', 'wss://b.test']);
});

test('a slip of the hand in an address is told without its password', () => {
  const typed = 'https://user:hunter2@relay.example.com/?token=hunter2';
  expect(() => parseRelayUrls([typed])).toThrow(/not a relay address: "https:\/\/relay/);
  try {
    parseRelayUrls([typed]);
  } catch (error) {
    expect(JSON.stringify([error, (error as Error).message])).not.toContain('hunter2');
  }
});

test('the whole address is dialled, and the relay is known by the rest', async () => {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const asked: string[] = [];
  const url = 'wss://user:hunter2@relay.example.com/?token=hunter2';
  const set = createRelaySet([url], {
    openSocket: sockets.openSocket,
    clock,
    auth: signerOf(1),
    fetchInfo: async (at) => {
      asked.push(at);
      return { ok: false, issue: { code: 'none', at: '', message: 'none' } };
    },
  });
  await set.ready();
  const socket = sockets.latest();
  expect(socket.url).toBe(url);
  socket.hear('AUTH', 'challenge');
  const sending = set.publish(eventOf('x'));
  await clock.advance(5000);
  expect(asked).toEqual([url]);
  expect(set.relays).toEqual(['wss://relay.example.com/']);
  expect(JSON.stringify(set.status())).not.toContain('hunter2');
  await set.close();
  const outcomes = await sending.catch((error: unknown) => String(error));
  expect(JSON.stringify(outcomes)).not.toContain('hunter2');
});
