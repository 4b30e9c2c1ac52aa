import { systemClock } from 'nostrain/base';
import { createRelaySet, type FetchInfo, verifyEvent } from 'nostrain/network';
import { fetchRelayInfo, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { describe, expect, test } from 'vitest';
import {
  createWorkingSigner,
  leadingZeroBits,
  type Mine,
  mineDraft,
} from '../../src/network/proof-of-work.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { signerOf } from '../support/signers.ts';

test.each([
  ['f'.repeat(64), 0],
  [`7${'f'.repeat(63)}`, 1],
  [`1${'f'.repeat(63)}`, 3],
  [`002f${'0'.repeat(60)}`, 10],
  ['000000000e9d97a1ab09fc381030b346cdd7a142ad57e6df0b46dc9bef6c7e2d', 36], // NIP-13
  ['0'.repeat(64), 256],
])('%s has %i leading zero bits', (id, bits) => expect(leadingZeroBits(id)).toBe(bits));

test('the id has the bits, and the nonce commits to them', () => {
  const signer = signerOf(1);
  const tags = [
    ['t', 'x'],
    ['nonce', '7', '3'],
  ];
  const draft = { kind: 33_334, created_at: 1_700_000_000, tags, content: 'heartbeat' };
  const mined = mineDraft({ ...draft, pubkey: signer.publicKey }, 10);
  expect(mined).toEqual({
    ...draft,
    tags: [
      ['t', 'x'],
      ['nonce', expect.stringMatching(/^\d+$/), '10'],
    ],
  });
  const event = signer.sign(mined);
  expect(verifyEvent(event).ok).toBe(true);
  expect(leadingZeroBits(event.id)).toBeGreaterThanOrEqual(10);
});

describe('a slow machine', () => {
  const draft = { kind: 33_334, created_at: 1_700_000_000, tags: [], content: 'heartbeat' };

  /** A machine that needs 20 s for the work on one event. */
  function slowMachine() {
    const clock = createManualClock();
    const stop = new AbortController();
    const [begunMs, waits]: [number[], number[]] = [[], []];
    const bits = { wanted: 3 };
    const startMs = clock.now();
    const mine: Mine = async (one, wanted, signal) => {
      begunMs.push(clock.now() - startMs);
      await clock.sleep(20_000, signal);
      return mineDraft(one, wanted);
    };
    const sign = createWorkingSigner({
      ...{ signer: signerOf(1), clock, mine, signal: stop.signal },
      workFor: () => bits.wanted,
      onWait: (_, seconds) => waits.push(seconds),
    });
    return { clock, stop, begunMs, waits, bits, sign };
  }

  test('attack: a relay that requires work costs ten seconds a minute, and every event gets its work', async () => {
    const { clock, begunMs, waits, sign } = slowMachine();
    const signing = ['1', '2', '3'].map((content) => sign({ ...draft, content }));
    await clock.advance(300_000);
    for (const { id } of await Promise.all(signing))
      expect(leadingZeroBits(id)).toBeGreaterThanOrEqual(3);
    // each costs 20 s, of which 10 s are paid for in advance
    expect(begunMs[0]).toBe(0);
    expect(begunMs[1]).toBeGreaterThanOrEqual(80_000);
    expect(begunMs[2]! - begunMs[1]!).toBeGreaterThanOrEqual(120_000);
    expect(waits).toEqual([61, 101]);
  });

  test('a newer heartbeat takes the place of one that waits, and not of one that is being worked on', async () => {
    const { clock, begunMs, sign } = slowMachine();
    const [first, second] = [new AbortController(), new AbortController()];
    const working = sign(draft, first.signal);
    await clock.advance(1000);
    first.abort(new Error('a newer one'));
    await clock.advance(20_000);
    expect(leadingZeroBits((await working).id)).toBeGreaterThanOrEqual(3);
    const waiting = sign(draft, second.signal);
    const replaced = expect(waiting).rejects.toThrow('a newer one');
    await clock.advance(5000);
    second.abort(new Error('a newer one'));
    await replaced;
    expect(begunMs).toEqual([0]);
  });

  test('another relay accepts the event as it is: the wait ends', async () => {
    const { clock, begunMs, bits, sign } = slowMachine();
    const signing = [sign(draft), sign(draft)];
    await clock.advance(25_000);
    bits.wanted = 0;
    await clock.advance(1000);
    expect((await Promise.all(signing))[1]).toEqual(signerOf(1).sign(draft));
    expect(begunMs).toEqual([0]);
  });

  test('closing ends the wait and the work', async () => {
    const { clock, stop, sign } = slowMachine();
    const signing = [sign(draft), sign(draft)].map((one) => expect(one).rejects.toThrow('over'));
    await clock.advance(5000);
    stop.abort(new Error('over'));
    await Promise.all(signing);
  });
});

const fetchInfo: FetchInfo = (url, signal) => fetchRelayInfo(url, { signal });

test('attack: a relay that requires work causes none while another relay accepts events without it', async () => {
  const servers = await Promise.all([createRelay({ minPow: 20 }), createRelay({})]);
  const set = createRelaySet(
    servers.map(({ url }) => url),
    { openSocket, clock: systemClock, fetchInfo },
  );
  await set.ready();
  const draft = { kind: 1000, created_at: Math.floor(Date.now() / 1000), tags: [], content: '' };
  const sent = (content: string) => set.publish(signerOf(1).sign({ ...draft, content }));
  expect((await sent('one')).map(({ status }) => status)).toEqual(['pow-needed', 'accepted']);
  expect(set.workFor(1000)).toBe(0);
  await servers[1]!.close();
  await set.close();

  const alone = createRelaySet([servers[0]!.url], { openSocket, clock: systemClock, fetchInfo });
  await alone.ready();
  await alone.publish(signerOf(1).sign(draft));
  expect(alone.workFor(1000)).toBe(20);
  await alone.close();
  await servers[0]!.close();
});
