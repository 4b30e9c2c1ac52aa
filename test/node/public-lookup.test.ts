/** Names that strangers chose are dialled only where they lead to public addresses. */
import type { LookupAddress } from 'node:dns';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fetchRelayInfo, openSocket } from 'nostrain/node';
import { afterEach, expect, test } from 'vitest';
import { openPublicSocket, publicLookup } from '../../src/node/net/relays.ts';

const closing: (() => unknown)[] = [];
afterEach(() => closing.splice(0).forEach((close) => void close()));

const resolving =
  (...addresses: readonly string[]) =>
  (_: string, __: object, done: (error: null, found: LookupAddress[]) => void) =>
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );

const lookedUp = (all: boolean, ...addresses: readonly string[]) =>
  new Promise((resolve) => {
    publicLookup(resolving(...addresses))('relay.example.com', { all }, (error, found) =>
      resolve(error ? error.message : found),
    );
  });

test('private addresses among those of a name are left out; a name with no others is refused', async () => {
  expect(await lookedUp(false, '127.0.0.1', '1.1.1.1')).toBe('1.1.1.1');
  expect(await lookedUp(true, '::1', '2a00::1', '10.0.0.1')).toEqual([
    { address: '2a00::1', family: 6 },
  ]);
  for (const all of [true, false]) {
    expect(await lookedUp(all, '::1', '192.168.1.1')).toBe(
      'relay.example.com leads to a private address',
    );
  }
});

/** Somebody in this network whom no stranger may make us call; a name leads there. */
async function listen() {
  let knocks = 0;
  const server = createServer((_, response) => response.end('{}')).on(
    'connection',
    () => void knocks++,
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `ws://localhost:${port}`, knocks: () => knocks };
}

const problemOf = (open: typeof openSocket, url: string) =>
  new Promise<string>((resolve) => {
    const socket = open(url);
    socket.onerror = resolve;
    socket.onclose = () => resolve('');
  });

test('neither the socket nor the description of a relay is asked for at a private address', async () => {
  const { url, knocks } = await listen();
  expect(await problemOf(openPublicSocket, url)).toBe('localhost leads to a private address');
  const info = await fetchRelayInfo(url, { publicOnly: true });
  expect(info).toMatchObject({
    ok: false,
    issue: { message: 'localhost leads to a private address' },
  });
  expect(knocks()).toBe(0);
  expect((await fetchRelayInfo(url)).ok).toBe(true);
  expect(await problemOf(openSocket, url)).not.toContain('private');
  expect(knocks()).toBe(2);
});
