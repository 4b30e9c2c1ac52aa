import { systemClock } from 'nostrain/base';
import { createRelaySet, type FetchInfo, verifyEvent } from 'nostrain/network';
import { fetchRelayInfo, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { expect, test } from 'vitest';
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

test('attack: work that never ends costs ten seconds a minute, then events are signed as they are', async () => {
  const clock = createManualClock();
  const asked: number[] = [];
  const endless: Mine = (_, bits, signal) => {
    asked.push(bits);
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  };
  const stop = new AbortController();
  const sign = createWorkingSigner({
    ...{ signer: signerOf(1), clock, mine: endless, workFor: () => 20, signal: stop.signal },
  });
  const draft = { kind: 33_334, created_at: 1_700_000_000, tags: [], content: 'heartbeat' };
  const asItIs = signerOf(1).sign(draft);
  const signing = sign(draft);
  await clock.advance(10_000);
  expect(await signing).toEqual(asItIs);
  expect(await sign(draft)).toEqual(asItIs); // nothing is left of this minute
  expect(asked).toEqual([20]);
  await clock.advance(50_000);
  const later = sign(draft);
  const ended = expect(later).rejects.toThrow('over');
  stop.abort(new Error('over'));
  await ended;
  expect(asked).toEqual([20, 20]);
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
