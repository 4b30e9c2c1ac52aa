/** One signature from a remote signer over a relay; the test signer speaks NIP-46 as nostr-tools does. */

import { BunkerSigner, parseBunkerInput } from 'nostr-tools/nip46';
import { SimplePool } from 'nostr-tools/pool';
import { type Clock, systemClock } from 'nostrain/base';
import { draftDelegation, readDelegation } from 'nostrain/certified/parts';
import { createRelaySet, createSigner, verifyEvent } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { askBunker, parseBunker } from '../../../src/network/wire/bunker.ts';
import { type BunkerHabits, startBunker } from '../../support/bunker.ts';

const owner = new Uint8Array(32).fill(40);
const of = { run: 'ab'.repeat(32), session: createSigner(new Uint8Array(32).fill(3)).publicKey };
const draft = draftDelegation(of, 5, 1_790_000_000);
const KEY = createSigner(new Uint8Array(32).fill(140)).publicKey;

let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());

async function ask(habits: Partial<BunkerHabits>, spoil = '', clock: Clock = systemClock) {
  const bunker = await startBunker(relay.url, { owner, ...habits });
  const address = parseBunker(bunker.address + spoil);
  if (!address.ok) throw new TypeError(address.issue.message);
  const relays = createRelaySet(address.value.relays, { openSocket, clock: systemClock });
  const auth: string[] = [];
  const { signal } = new AbortController();
  try {
    await relays.ready();
    const onAuth = (url: string) => void auth.push(url);
    const event = await askBunker(draft, address.value, { relays, clock, signal, onAuth });
    return { event, auth, signed: bunker.signed, told: bunker.told };
  } finally {
    await relays.close();
    await bunker.close();
  }
}

describe('a remote signer', () => {
  it('signs a delegation, once', async () => {
    const { event, signed, auth, told } = await ask({});
    // NIP-46: who asks, and that it needs the connection no more
    expect(told).toEqual(['{"name":"nostrain"}', 'logout']);
    expect(signed).toHaveLength(1);
    expect(auth).toEqual([]);
    expect(verifyEvent(event).ok).toBe(true);
    const read = readDelegation(event, of);
    expect(read.ok && read.value.key).toBe(createSigner(owner).publicKey);
  });

  it('may send its owner to a page first, and signs then', async () => {
    const { auth } = await ask({ authUrl: 'https://signer.example/ok' });
    expect(auth).toEqual(['https://signer.example/ok']);
    const hostile = await ask({ authUrl: 'javascript:alert(1)' });
    expect(hostile.auth).toEqual([]);
  });

  it('that adds something of its own is found out', async () => {
    const { event } = await ask({ change: (asked) => ({ ...asked, content: '{}' }) });
    expect(readDelegation(event, of)).toMatchObject({ ok: false });
  });

  it('that refuses, or does not know the secret, says so', async () => {
    await expect(ask({ refusal: 'no' })).rejects.toMatchObject({ code: 'bunker/refused' });
    await expect(ask({}, 'x')).rejects.toMatchObject({ code: 'bunker/refused' });
  });

  it('that is silent is not waited for longer than an owner may take', async () => {
    const address = { signer: KEY, relays: [relay.url], secret: '' };
    const relays = createRelaySet(address.relays, { openSocket, clock: systemClock });
    await relays.ready();
    const clock: Clock = { ...systemClock, sleep: async () => undefined };
    const { signal } = new AbortController();
    const asked = askBunker(draft, address, { relays, clock, signal, onAuth: () => undefined });
    await expect(asked).rejects.toMatchObject({ code: 'bunker/silent' });
    await relays.close();
  });

  it('of these tests answers nostr-tools too', async () => {
    const bunker = await startBunker(relay.url, { owner });
    const pool = new SimplePool({ websocketImplementation: WebSocket } as never);
    const pointer = await parseBunkerInput(bunker.address);
    const signer = BunkerSigner.fromBunker(new Uint8Array(32).fill(7), pointer!, { pool });
    await signer.connect();
    expect(await signer.getPublicKey()).toBe(createSigner(owner).publicKey);
    const event = await signer.signEvent({ ...draft, tags: draft.tags.map((tag) => [...tag]) });
    expect(readDelegation(event, of).ok).toBe(true);
    await signer.close();
    pool.close([relay.url]);
    await bunker.close();
  });
});

describe('the address of a remote signer', () => {
  it('is read, and refused for anything else', () => {
    const good = `bunker://${KEY}?relay=wss://a.example&relay=wss://b.example&secret=s`;
    expect(parseBunker(` ${good} `)).toEqual({
      ok: true,
      value: { signer: KEY, relays: ['wss://a.example', 'wss://b.example'], secret: 's' },
    });
    const bad = [
      ...['', 'bunker://', `bunker://${KEY}`, `bunker://${KEY}?secret=s`, 'name@example.com'],
      ...[`bunker://${'ff'.repeat(32)}?relay=wss://a.example`, `bunker://x?relay=wss://a.example`],
      `bunker://${KEY}?${'relay=wss://a.example/&'.repeat(400)}`,
    ];
    for (const text of bad) expect(parseBunker(text).ok, text.slice(0, 40)).toBe(false);
    const secret = parseBunker(`nsec1${'q'.repeat(58)}`);
    expect(!secret.ok && secret.issue.message).toContain('secret key');
  });
});
