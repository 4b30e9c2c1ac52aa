/** One relay of three sends no EOSE: queries end once the others have, on a test clock. */

import { Control, collectEvents, findSnapshot } from 'nostrain/certified/parts';
import { snapshot } from 'nostrain/kinds';
import { chunkTree, createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import { collectGradientEvents as collectGradients } from 'nostrain/python';
import { describe, expect, it } from 'vitest';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { signerOf } from '../../support/signers.ts';

const URLS = ['wss://a.test', 'wss://b.test', 'wss://silent.test'];
const { signal } = new AbortController();

/** Three relays with these events; the last one sends them and then nothing. */
function threeRelays(stored: readonly SignedEvent[] = []) {
  const clock = createManualClock();
  const sockets = createFakeSockets((socket) => socket.accept());
  const retry = { initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none', maxAttempts: 1 } as const;
  const waitedFor: string[][] = [];
  const open = (urls: readonly string[]) =>
    createRelaySet(urls, {
      ...{ openSocket: sockets.openSocket, clock, retry },
      onWaiting: (relays) => void waitedFor.push([...relays]),
    });
  const answered = new Set<unknown>();
  const answer = () => {
    for (const socket of sockets.attempts) {
      for (const frame of socket.sent) {
        const [verb, name, filter] = frame as [string, string, { kinds?: readonly number[] }];
        if (verb !== 'REQ' || answered.has(frame)) continue;
        answered.add(frame);
        const fitting = stored.filter(({ kind }) => filter.kinds?.includes(kind));
        for (const event of fitting) socket.hear('EVENT', name, event);
        if (!socket.url.includes('silent')) socket.hear('EOSE', name);
      }
    }
  };
  /** The seconds until it is over. */
  async function secondsOf(promise: Promise<unknown>, atMost = 200): Promise<number> {
    const startMs = clock.now();
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    promise.then(end, end);
    for (let tick = 0; tick < 10 * atMost && !isOver; tick++) {
      await clock.advance(tick === 0 ? 0 : 100);
      answer();
      await clock.advance(0);
    }
    if (!isOver) throw new Error('never over');
    return (clock.now() - startMs) / 1000;
  }
  return { clock, open, secondsOf, waitedFor };
}

describe('a relay withholds EOSE', () => {
  it('a look at a certified round takes 2 seconds and not 10, then a fifth of one; the relay is named', async () => {
    const { clock, open, secondsOf, waitedFor } = threeRelays();
    const relays = open(URLS);
    const control = new Control({
      ...{ run: 'ab'.repeat(32), relays, signer: signerOf(1), clock, sha256: nativeSha256, signal },
    });
    const queryRound = () => control.queryRound(3, { take: () => undefined });
    const first = await secondsOf(queryRound());
    expect(first).toBeGreaterThanOrEqual(2);
    expect(first).toBeLessThanOrEqual(2.3);
    expect(await secondsOf(queryRound())).toBeLessThan(0.5);
    expect(waitedFor).toEqual([['wss://silent.test']]);
    await relays.close();
  });

  it('reading the past of a run takes 2 seconds and not a minute, and says which relay may have more', async () => {
    const { clock, open, secondsOf } = threeRelays();
    const relays = open(URLS);
    const unanswered: string[] = [];
    const asked = {
      relays,
      signal,
      clock,
      onUnanswered: (some: readonly string[]) => void unanswered.push(...some),
    };
    expect(await secondsOf(collectEvents([{ kinds: [1] }], asked, () => undefined))).toBeLessThan(
      3,
    );
    expect(unanswered).toEqual(['wss://silent.test']);
    await relays.close();
  });

  it('a search for a table of stake takes 2 seconds and not 15', async () => {
    const { clock, open, secondsOf } = threeRelays();
    const relays = open(URLS);
    const found = findSnapshot('cd'.repeat(32), { relays, clock, sha256: nativeSha256, signal });
    expect(await secondsOf(found)).toBeLessThan(3);
    expect(await found).toMatchObject({ ok: false });
    await relays.close();
  });

  it('a table whose chunks are missing is given up after half a minute and not two', async () => {
    const { root } = chunkTree(new Uint8Array(100_000));
    const claim = signerOf(2).sign(
      snapshot.build(
        { id: 'cd'.repeat(32), root, bytes: 100_000, expiration: 2_500_000_000 },
        1_790_000_000,
      ),
    );
    const { clock, open, secondsOf } = threeRelays([claim]);
    const relays = open(URLS);
    const found = findSnapshot('cd'.repeat(32), { relays, clock, sha256: nativeSha256, signal });
    const seconds = await secondsOf(found);
    expect(seconds).toBeGreaterThan(20);
    expect(seconds).toBeLessThan(35);
    expect(await found).toMatchObject({ ok: false });
    await relays.close();
  });

  it('collecting gradients of the Python wire takes its idle time of 2 seconds and not 60', async () => {
    const { clock, open, secondsOf } = threeRelays();
    const query = {
      ...({ run: 'demo', round: 0, sync: 'timeout', discover: false } as const),
      ...{ idleMs: 2000, maxMs: 60_000, heartbeats: { idleMs: 2000, maxMissed: 3 } },
    };
    const ports = { open: (url: string) => open([url]), clock, maxAttempts: 1, signal };
    expect(await secondsOf(collectGradients(URLS, query, ports))).toBeLessThan(3);
  });
});
