/** Archived votes of a round: readers get exactly the events that members signed, whatever an archiver puts in. */
import fc from 'fast-check';
import { sha256, utf8 } from 'nostrain/base';
import { buildMember } from 'nostrain/certified/parts';
import { createRelaySet } from 'nostrain/network';
import { expect, it } from 'vitest';
import {
  archivedVotesFilters,
  buildArchivedVotes,
  findArchivers,
  openArchivedVotes,
  readArchivedVotes,
} from '../../../src/certified/wire/archived-votes.ts';
import { createFakeSockets } from '../../support/fake-sockets.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { forgedTwin, signerOf } from '../../support/signers.ts';

const run = '5a'.repeat(32);
const life = { createdAt: 1_700_000_000, expiresAt: 1_800_000_000 };
const leave = (number: number, of = run) =>
  signerOf(number).sign(buildMember({ type: 'leave', run: of, last: 3 }, life));

it('survive a round trip under another key', () => {
  const events = [leave(1), leave(2)].sort((a, b) => (a.id < b.id ? -1 : 1));
  const [built] = buildArchivedVotes({ run, round: 3 }, events, life, sha256);
  const { draft, payload } = built!;
  expect(payload).toBeUndefined();
  expect(readArchivedVotes(signerOf(3).sign(draft), run)).toEqual({ ok: true, value: events });
  expect(readArchivedVotes(signerOf(3).sign(draft), '6b'.repeat(32)).ok).toBe(false);
});

it('that are forged, of another run or of another kind are skipped', () => {
  const note = signerOf(1).sign({ kind: 1, created_at: 1, tags: [['s', run]], content: '' });
  const events = [forgedTwin(leave(1)), leave(2, '6b'.repeat(32)), note, leave(3), 'x', null];
  expect(openArchivedVotes(utf8(JSON.stringify(events)), run)).toEqual([leave(3)]);
});

it('by a stranger are not queried', () => {
  const keys = Array.from({ length: 65 }, (_, i) => String(i).padStart(64, '0'));
  const filters = archivedVotesFilters(run, keys, 3);
  expect(filters.flatMap(({ authors }) => authors)).toEqual(keys);
  expect(filters.map((filter) => filter['#s'])).toEqual([[`${run}/3`], [`${run}/3`]]);
  expect(archivedVotesFilters(run, [])).toEqual([]);
});

it('never make a reader throw', () => {
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), fc.json().map(utf8)), (bytes) => {
      expect(openArchivedVotes(bytes, run)).toEqual([]);
    }),
  );
});

it('do not count as missing until a relay has answered', async () => {
  const clock = createManualClock();
  const { openSocket } = createFakeSockets((socket) => socket.refuse());
  const relays = createRelaySet(['ws://a.test'], {
    ...{ openSocket, clock },
    retry: { maxAttempts: 2, initialMs: 100, maxMs: 100, multiplier: 1, jitter: 'none' },
  });
  const { signal } = new AbortController();
  const find = () => findArchivers({ run, round: 3 }, [signerOf(1).publicKey], { relays, signal });
  const inVain = find();
  await clock.advance(10_000);
  expect(await inVain).toBeUndefined();
  const underWay = find();
  await relays.close();
  // the clock does not advance, so neither waits
  expect(await underWay).toBeUndefined();
  expect(await find()).toBeUndefined();
});
