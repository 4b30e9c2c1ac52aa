/** Which heartbeats a worker keeps, of how many workers, and how it dates and recognizes its own. */

import { createWire, type SignedEvent } from 'nostrain/network';
import type { Heartbeat } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { SubscriptionHandlers } from '../../../src/network/transport/subscription.ts';
import { buildPresence } from '../../../src/network/wire/native-profile.ts';
import type { LocalHeartbeat } from '../../../src/network/wire/wire.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { signerOf } from '../../support/signers.ts';
import { smallLayout } from '../../support/swarm.ts';

const hex = (n: number) => n.toString(16).padStart(64, '0');
const me = signerOf(1).publicKey;
const INTERVAL = 60;

function stage(peers: readonly string[] = []) {
  const clock = createManualClock();
  const sent: SignedEvent[] = [];
  let handlers: SubscriptionHandlers | undefined;
  const relays = {
    ...{ relays: ['one'], readRelays: ['one'], status: () => [], workFor: () => 0 },
    close: async () => undefined,
    send: (event: SignedEvent) => {
      sent.push(event);
      return [];
    },
    subscribe: (_: unknown, given: SubscriptionHandlers) => {
      handlers = given;
      return { caughtUp: true, close: () => undefined };
    },
  };
  const wire = createWire({
    ...{ run: 'r', layout: smallLayout, relays: relays as never, signer: signerOf(1), clock },
    ...{ ratio: 1, maxContainerBytes: 1e6, peers },
  });
  const startSeconds = Math.floor(clock.now() / 1000);
  /** A heartbeat arrives, dated this many seconds after the start. */
  const hear = (pubkey: string, seconds: number, more: Partial<Heartbeat> = {}) => {
    const createdAt = startSeconds + seconds;
    const heartbeat = {
      ...{ worker: pubkey, round: 0, intervalSeconds: INTERVAL, examples: undefined },
      ...{ capabilities: [], relays: [], digest: undefined, cohort: undefined, leaving: false },
    };
    const draft = buildPresence('r', { ...heartbeat, createdAt, ...more });
    handlers!.onEvent({ ...draft, pubkey, id: hex(createdAt), sig: '' } as SignedEvent, 'one');
  };
  const roundOf = (worker: string) => wire.heartbeats.get(worker)?.round;
  return { clock, wire, hear, roundOf, sent, startSeconds };
}

const own: LocalHeartbeat = {
  ...{ round: 0, digest: undefined, cohort: undefined, intervalSeconds: INTERVAL },
  ...{ examples: undefined, leaving: false },
};

describe('heartbeats', () => {
  it('count by their date, not by their arrival, of the workers that are named', () => {
    const { hear, roundOf } = stage([hex(1), hex(2)]);
    hear(hex(1), 10, { round: 5 });
    hear(hex(1), 9, { round: 4 });
    hear(hex(2), 0, { round: 1 });
    hear(hex(2), 1, { round: 2 });
    hear(hex(3), 0);
    expect([1, 2, 3].map((n) => roundOf(hex(n)))).toEqual([5, 2, undefined]);
  });

  it('dated a quarter of an hour ahead or more count no more', () => {
    const { hear, wire } = stage();
    hear(hex(1), 15 * 60);
    hear(hex(2), 15 * 60 + 1);
    expect([...wire.heartbeats.keys()]).toEqual([hex(1)]);
  });

  it('of 1,024 workers are kept; more only once others are silent for an interval', async () => {
    const { clock, hear, wire } = stage();
    for (let n = 1; n <= 1024; n++) hear(hex(n), 0);
    hear(hex(2000), 0);
    expect([wire.heartbeats.size, wire.heartbeats.has(hex(2000))]).toEqual([1024, false]);
    hear(hex(1), 30, { round: 3 });
    await clock.advance(1000 * INTERVAL + 1000);
    hear(hex(2000), INTERVAL + 1);
    expect([...wire.heartbeats.keys()]).toEqual([hex(1), hex(2000)]);
    expect(wire.heartbeats.get(hex(1))!.round).toBe(3);
  });
});

describe('heartbeats of its own', () => {
  it('never share a second, since relays keep the newest by date', async () => {
    const { clock, wire, sent, startSeconds } = stage();
    for (let i = 0; i < 3; i++) wire.sendHeartbeat(own);
    await clock.advance(0);
    expect(sent.map(({ created_at }) => created_at - startSeconds)).toEqual([0, 1, 2]);
  });

  it('that it did not send show another process, unless an earlier one left them', async () => {
    const strange = async (...heard: Parameters<ReturnType<typeof stage>['hear']>[]) => {
      const { clock, wire, hear } = stage();
      wire.sendHeartbeat(own);
      await clock.advance(0);
      for (const each of heard) hear(...each);
      return wire.isKeyInUse;
    };
    expect(await strange([me, 0])).toBe(false);
    expect(await strange([me, 2])).toBe(false);
    expect(await strange([me, 3])).toBe(true);
    expect(await strange([me, 3, { leaving: true }])).toBe(false);
    expect(await strange([hex(1), 3])).toBe(false);
  });
});
