/** One signature from a remote signer over a relay; the test signer speaks NIP-46 as nostr-tools does. */

import { BunkerSigner, parseBunkerInput } from 'nostr-tools/nip46';
import { SimplePool } from 'nostr-tools/pool';
import { systemClock } from 'nostrain/base';
import { draftDelegation, readDelegation } from 'nostrain/certified/parts';
import { createRelaySet, createSigner, type SignedEvent, verifyEvent } from 'nostrain/network';
import { openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { askBunker, parseBunker } from '../../../src/network/wire/bunker.ts';
import { type BunkerHabits, startBunker } from '../../support/bunker.ts';
import { createManualClock } from '../../support/manual-clock.ts';

const owner = new Uint8Array(32).fill(40);
const of = { run: 'ab'.repeat(32), session: createSigner(new Uint8Array(32).fill(3)).publicKey };
const draft = draftDelegation(of, 5, 1_790_000_000);
const KEY = createSigner(new Uint8Array(32).fill(140)).publicKey;

let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());

async function ask(habits: Partial<BunkerHabits>, spoil = '') {
  const bunker = await startBunker(relay.url, { owner, ...habits });
  const address = parseBunker(bunker.address + spoil);
  if (!address.ok) throw new TypeError(address.issue.message);
  const relays = createRelaySet(address.value.relays, { openSocket, clock: systemClock });
  const auth: string[] = [];
  const { signal } = new AbortController();
  try {
    await relays.ready();
    const onAuth = (url: string) => void auth.push(url);
    const means = { relays, clock: systemClock, signal, onAuth };
    const event = await askBunker(draft, address.value, means);
    return { event, auth, signed: bunker.signed, told: bunker.told };
  } finally {
    await relays.close();
    await bunker.close();
  }
}

/** Asks a signer that loses every request to sign, on a clock that the test moves. */
async function askLosing() {
  const connected = new Set<string>();
  const bunker = await startBunker(relay.url, { owner, loses: true, connected });
  const address = parseBunker(bunker.address);
  if (!address.ok) throw new TypeError(address.issue.message);
  const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
  await relays.ready();
  const clock = createManualClock();
  const { signal } = new AbortController();
  const means = { relays, clock, signal, onAuth: () => undefined };
  const asked = askBunker(draft, address.value, means).catch((error: unknown) => error);
  const close = async () => {
    await bunker.close();
    await relays.close();
  };
  return { bunker, connected, asked, clock, close };
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

  it('that loses a request gets it again, three times in three minutes', async () => {
    const { bunker, asked, clock, close } = await askLosing();
    for (const count of [1, 2, 3]) {
      await vi.waitFor(() => expect(bunker.lost).toHaveLength(count));
      await vi.waitFor(() => expect(clock.pending).toBe(1));
      await clock.advance(60_000);
    }
    await vi.waitFor(() => expect(bunker.told).toContain('logout'));
    expect(await asked).toMatchObject({
      code: 'bunker/silent',
      message: 'the signer did not answer 3 requests in 180 s',
    });
    // one id, so that a signer may ask its owner once
    expect(new Set(bunker.lost).size).toBe(1);
    await close();
  });

  it.each([
    ['knows its clients signs', true],
    ['has forgotten its clients refuses, which is said,', false],
  ])('that restarts during a request and %s', async (_, keeps) => {
    const { bunker, connected, asked, clock, close } = await askLosing();
    await vi.waitFor(() => expect(bunker.lost).toHaveLength(1));
    await vi.waitFor(() => expect(clock.pending).toBe(1));
    await bunker.close();
    const again = await startBunker(relay.url, { owner, ...(keeps && { connected }) });
    await clock.advance(60_000);
    const end = await asked;
    if (keeps) expect(readDelegation(end as SignedEvent, of).ok).toBe(true);
    else {
      const message = 'the signer refused: not connected';
      expect(end).toMatchObject({ code: 'bunker/refused', message });
    }
    expect(again.signed).toHaveLength(keeps ? 1 : 0);
    await again.close();
    await close();
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
