/** Relays that workers of a run name in heartbeats and relay lists, for workers that join later. */

import { buildPresence, type Signer } from 'nostrain/network';
import { describe, expect, it } from 'vitest';
import { buildRelayList, relaysOfWorkers } from '../../../src/network/wire/worker-relays.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { signerOf } from '../../support/signers.ts';

const run = 'a'.repeat(64);
const NOW = 1_790_000_000;
const founder = signerOf(1);
const others = [2, 3, 4].map(signerOf);

const heartbeat = (signer: Signer, relays: readonly string[], of = run) =>
  signer.sign(
    buildPresence(of, {
      ...{ worker: signer.publicKey, round: 0, intervalSeconds: 30, examples: undefined },
      ...{ capabilities: [], relays, digest: undefined, cohort: undefined, leaving: false },
      createdAt: NOW,
    }),
  );
const list = (signer: Signer, urls: readonly string[], createdAt = NOW) =>
  signer.sign(buildRelayList(urls, createdAt));

function find(
  events: readonly ReturnType<typeof heartbeat>[],
  more: { readonly allowPrivate?: boolean; readonly known?: readonly string[] } = {},
) {
  const relay = createMemoryRelay('wss://one.example.org');
  for (const event of events) relay.put(event);
  return relaysOfWorkers({
    ...{ run, founders: [founder.publicKey], known: ['wss://one.example.org'], ...more },
    ...{ relays: relay.connect(), allowPrivate: more.allowPrivate ?? false, waitMs: 1000 },
    signal: new AbortController().signal,
  });
}

describe('relays that the workers of a run name', () => {
  it('are those of heartbeats and relay lists, of founders first, then what most name', async () => {
    const found = await find([
      heartbeat(others[0]!, ['wss://two.example.org']),
      heartbeat(others[1]!, ['wss://three.example.org']),
      heartbeat(others[2]!, ['wss://three.example.org', 'wss://one.example.org']),
      list(founder, ['wss://founder.example.org']),
    ]);
    const expected = ['founder', 'three', 'two'].map((name) => `wss://${name}.example.org`);
    expect(found).toEqual(expected);
  });

  it('of a list the newest counts; lists of who is not in the run do not', async () => {
    const old = list(founder, ['wss://old.example.org'], NOW - 10);
    const stranger = list(others[0]!, ['wss://stranger.example.org']);
    const elsewhere = heartbeat(others[1]!, ['wss://elsewhere.example.org'], 'b'.repeat(64));
    const found = await find([old, list(founder, ['wss://new.example.org']), stranger, elsewhere]);
    expect(found).toEqual(['wss://new.example.org']);
  });

  it('attack: a stranger names doors in the network of who listens', async () => {
    const doors = ['ws://127.0.0.1:8080', 'ws://192.168.1.1', 'ws://printer.local:631'];
    expect(await find([heartbeat(others[0]!, doors)])).toEqual([]);
    expect(await find([list(founder, doors)])).toEqual([]);
    expect(await find([list(founder, doors)], { allowPrivate: true })).toHaveLength(2);
  });

  it('attack: one names a thousand: two of each, eight of all', async () => {
    const many = (from: number) =>
      Array.from({ length: 40 }, (_, i) => `wss://r${from + i}.example.org`);
    expect(await find([heartbeat(others[0]!, many(0).slice(0, 10))])).toHaveLength(2);
    const crowd = [5, 6, 7, 8, 9, 10].map((number) =>
      list(signerOf(number), many(100 * number).slice(0, 5)),
    );
    const present = [5, 6, 7, 8, 9, 10].map((number) => heartbeat(signerOf(number), []));
    expect((await find([...crowd, ...present])).length).toBeLessThanOrEqual(8);
  });
});
