/** Stake snapshots as events: inside one, or in chunks that it names; and false claims. */
import fc from 'fast-check';
import { sha256, sha256Hex, toHex } from 'nostrain/base';
import { snapshot as kind } from 'nostrain/kinds';
import { planChunks, type SignedEvent } from 'nostrain/network';
import {
  MAX_STAKE_ROWS,
  type StakeSnapshot,
  snapshotBytes,
  snapshotId,
  stakeRows,
} from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import {
  buildSnapshot,
  readSnapshot,
  readSnapshots,
} from '../../../src/certified/wire/snapshots.ts';
import { MAX_SNAPSHOT_BYTES } from '../../../src/run/stake/stake-snapshot.ts';
import { signerOf } from '../../support/signers.ts';

const SIZE = 45_056;
const me = signerOf(1);
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_086_400 };
const keys = Array.from({ length: 3000 }, (_, i) => sha256Hex(Uint8Array.of(i, i >> 8)));
const tableOf = (rows: number, unit = 'stake'): StakeSnapshot => ({
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit },
  blockHash: '00'.repeat(32),
  rows: stakeRows(keys.slice(0, rows).map((key, i) => [key, BigInt(i + 1)])),
});

/** All events of a snapshot, chunks first. */
function eventsOf(table: StakeSnapshot, by = me): readonly SignedEvent[] {
  const { draft, payload } = buildSnapshot(table, lifetime);
  const plan = payload && planChunks(payload, lifetime);
  const chunks = Array.from({ length: plan?.count ?? 0 }, (_, index) => plan!.draft(index));
  return [...chunks, draft].map((each) => by.sign(each));
}

/** An event that claims a snapshot is in the chunks under a root. */
const claimOf = (id: string, root: string, bytes: number): SignedEvent =>
  me.sign(kind.build({ id, root, bytes, expiration: lifetime.expiresAt }, lifetime.createdAt));

const small = tableOf(3);
const large = tableOf(3000);
const [id, largeId] = [snapshotId(small), snapshotId(large)];

describe('a snapshot event', () => {
  test('contains it up to 44 KiB, and names its chunks above: one form for each size', () => {
    const most = Math.floor((SIZE - snapshotBytes(tableOf(0)).length) / 48);
    expect(most).toBeGreaterThan(930);
    const inside = buildSnapshot(tableOf(most), lifetime);
    expect(inside.payload).toBeUndefined();
    expect(JSON.stringify(me.sign(inside.draft)).length).toBeLessThan(65_536);
    const beside = buildSnapshot(tableOf(most + 1), lifetime);
    expect(beside.draft.content).toBe('');
    expect(beside.payload).toEqual(snapshotBytes(tableOf(most + 1)));
    const read = readSnapshot(me.sign(beside.draft));
    const { root } = planChunks(beside.payload!, lifetime);
    expect(read).toEqual({
      ok: true,
      value: {
        ...{ id: snapshotId(tableOf(most + 1)), root, bytes: beside.payload!.length },
        worker: me.publicKey,
      },
    });
  });

  test('is refused in the other form, or above the size of the largest table', () => {
    const root = 'ab'.repeat(32);
    expect(() => claimOf(id, root, SIZE)).toThrow(/bytes is not/);
    expect(() => claimOf(id, root, MAX_SNAPSHOT_BYTES + 1)).toThrow(/bytes is not/);
    expect(claimOf(id, root, MAX_SNAPSHOT_BYTES).content).toBe('');
    expect(MAX_SNAPSHOT_BYTES).toBeGreaterThan(48 * MAX_STAKE_ROWS);
    const data = Buffer.from(snapshotBytes(large)).toString('base64');
    const said = { id: largeId, data, expiration: lifetime.expiresAt };
    expect(() => kind.build(said, 1)).toThrow(/larger one has/);
  });

  test('with bytes that do not match its id is refused', () => {
    const [event] = eventsOf(small) as [SignedEvent];
    const other = buildSnapshot(tableOf(2), lifetime).draft;
    expect(readSnapshot(event)).toEqual({ ok: true, value: { id, snapshot: small } });
    const twin = readSnapshot({ ...event, content: other.content });
    expect(twin).toMatchObject({ ok: false, issue: { code: 'other-snapshot' } });
    const noise = new Uint8Array([1, 2, 3]);
    const named = { id: toHex(sha256(noise)), data: 'AQID', expiration: lifetime.expiresAt };
    expect(readSnapshot(me.sign(kind.build(named, 1)))).toMatchObject({
      ok: false,
      issue: { code: 'bad-snapshot' },
    });
  });
});

describe('snapshots among events', () => {
  const events = eventsOf(large);

  test('are found inside events and in chunks, in any order, by any author', () => {
    expect(events).toHaveLength(5);
    const other = eventsOf(large, signerOf(2));
    const mixed = [events[4]!, other[2]!, events[0]!, other[0]!, events[3]!, events[1]!];
    const found = readSnapshots([...mixed, ...eventsOf(small)]);
    expect([...found]).toEqual([
      [id, small],
      [largeId, large],
    ]);
  });

  test('with a missing chunk it is not found; chunks without their event are ignored', () => {
    for (const left of events)
      expect(readSnapshots(events.filter((each) => each !== left)).size).toBe(0);
  });

  test('false claims do not count and do not block others', () => {
    const root = planChunks(snapshotBytes(large), lifetime).root;
    const bytes = snapshotBytes(large).length;
    const otherTable = tableOf(3000, 'other');
    const claims = [
      claimOf(id, root, bytes),
      claimOf(largeId, root, bytes - 1),
      claimOf(largeId, root, MAX_SNAPSHOT_BYTES),
      claimOf(largeId, 'ab'.repeat(32), bytes),
      claimOf(largeId, planChunks(snapshotBytes(otherTable), lifetime).root, bytes),
    ];
    const noise = new Uint8Array(bytes).fill(7);
    const plan = planChunks(noise, lifetime);
    const junk = Array.from({ length: plan.count }, (_, index) => me.sign(plan.draft(index)));
    const named = claimOf(largeId, plan.root, bytes);
    const found = readSnapshots([...claims, named, ...junk, ...eventsOf(otherTable), ...events]);
    expect(new Set(found.keys())).toEqual(new Set([snapshotId(otherTable), largeId]));
    expect(found.get(largeId)).toEqual(large);
  });

  test('reading any event never throws, and returns only content that matches its id', {
    timeout: 120_000,
  }, () => {
    const tag = fc.array(fc.oneof(fc.constantFrom('x', 'root', 'bytes', 't'), fc.string()));
    const content = fc.oneof(fc.string(), fc.base64String(), fc.constant(''));
    fc.assert(
      fc.property(fc.array(tag), content, fc.nat(4), (tags, text, index) => {
        const odd = { ...events[index]!, tags: [...events[index]!.tags.slice(1), ...tags] };
        for (const event of [odd, { ...odd, content: text }, { ...events[index]!, content: text }])
          readSnapshot(event);
        const found = readSnapshots([odd, { ...events[index]!, content: text }, ...events]);
        expect(found.get(largeId)).toEqual(large);
      }),
      { numRuns: 60 },
    );
  });
});
