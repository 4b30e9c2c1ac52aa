/** Stake snapshots over real relays: published whole or as chunks, found by id despite false claims of the id. */

import { sha256Hex, systemClock } from 'nostrain/base';
import { findSnapshot } from 'nostrain/certified/parts';
import { snapshot as kind } from 'nostrain/kinds';
import { chunkTree, createRelaySet, type RelaySet, sendChunks } from 'nostrain/network';
import { nativeCrypto, nativeSha256, openSocket } from 'nostrain/node';
import { createRelay, type Relay, type RelayOptions } from 'nostrain/relay';
import { type StakeSnapshot, snapshotBytes, snapshotId, stakeRows } from 'nostrain/run';
import { expect, test } from 'vitest';
import { publishSnapshot } from '../../../src/certified/wire/snapshots.ts';
import { createKeeper } from '../../support/keeper.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createMemoryRelay } from '../../support/memory-relays.ts';
import { signerOf } from '../../support/signers.ts';

const createdAt = Math.floor(Date.now() / 1000);
const lifetime = { createdAt, expiresAt: createdAt + 3600 };
const never = new AbortController().signal;
const keep = createKeeper();

const startRelay = async (options: RelayOptions = {}): Promise<Relay> =>
  keep(await createRelay(options));

async function connect(...relays: readonly Relay[]): Promise<RelaySet> {
  const urls = relays.map(({ url }) => url);
  const set = createRelaySet(urls, { openSocket, clock: systemClock, crypto: nativeCrypto });
  await keep(set).ready();
  return set;
}

const tableOf = (rows: number, unit = 'stake'): StakeSnapshot => ({
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit },
  blockHash: '00'.repeat(32),
  rows: stakeRows(
    Array.from({ length: rows }, (_, i) => [
      sha256Hex(Uint8Array.of(i, i >> 8, i >> 16)),
      BigInt(i + 1),
    ]),
  ),
});

const sending = (relays: RelaySet, number: number, signal = never) => ({
  ...search(relays, signal),
  lifetime,
  sign: signerOf(number).sign.bind(signerOf(number)),
});
const search = (relays: RelaySet, signal = never) => ({
  ...{ relays, clock: systemClock, sha256: nativeSha256, signal },
});

test('a table of 100,000 rows goes over a relay and comes back, chunks before the event', {
  timeout: 120_000,
}, async () => {
  const relay = await startRelay();
  const table = tableOf(100_000);
  expect(await publishSnapshot(table, sending(await connect(relay), 1))).toBeUndefined();
  const relays = await connect(relay);
  const found = await findSnapshot(snapshotId(table), search(relays));
  expect(found.ok && found.value.rows.length).toBe(100_000);
  expect(found.ok && snapshotId(found.value)).toBe(snapshotId(table));
});

test('one that fits is one event; what no event has is not found', async () => {
  const relay = await startRelay();
  const relays = await connect(relay);
  const table = tableOf(3);
  expect(await publishSnapshot(table, sending(relays, 1))).toBeUndefined();
  expect(await findSnapshot(snapshotId(table), search(relays))).toEqual({ ok: true, value: table });
  const other = await findSnapshot('ab'.repeat(32), search(relays));
  expect(other).toMatchObject({ ok: false, issue: { message: 'no event carries or names it' } });
});

test('false claims of its id delay nothing: missing chunks, and chunks of another table', async () => {
  const relay = await startRelay();
  const relays = await connect(relay);
  const [table, other] = [tableOf(2000), tableOf(2000, 'other')];
  const id = snapshotId(table);
  const claim = async (number: number, root: string, bytes: number) => {
    const draft = kind.build({ id, root, bytes, expiration: lifetime.expiresAt }, createdAt + 1);
    await relays.publish(signerOf(number).sign(draft));
  };
  const bytes = snapshotBytes(other);
  await claim(2, 'cd'.repeat(32), bytes.length);
  expect(await publishSnapshot(other, sending(relays, 3))).toBeUndefined();
  const { enough } = sendChunks([bytes], 1, sending(relays, 2));
  expect(await enough).toBe(true);
  await claim(2, chunkTree(bytes).root, bytes.length);
  expect(await publishSnapshot(table, sending(relays, 1))).toBeUndefined();
  expect(await findSnapshot(id, search(await connect(relay)))).toEqual({ ok: true, value: table });
});

test('chunks signed by other keys count; chunks that one relay lacks come from another', async () => {
  const [first, second] = [await startRelay(), await startRelay()];
  const table = tableOf(3000);
  const both = await connect(first, second);
  const one = await connect(first);
  // the event is on both, its author's chunks on the first alone
  expect(await publishSnapshot(table, sending(one, 1))).toBeUndefined();
  const bytes = snapshotBytes(table);
  expect(await sendChunks([bytes], 1, sending(await connect(second), 2)).enough).toBe(true);
  expect(await findSnapshot(snapshotId(table), search(both))).toEqual({ ok: true, value: table });
});

test('a relay that takes no chunk is named, and no event says what is not there', async () => {
  const relay = await startRelay({ maxEventBytes: 20_000 });
  const relays = await connect(relay);
  const table = tableOf(2000);
  const words = await publishSnapshot(table, sending(relays, 1));
  expect(words).toMatch(/1 of 3 chunks taken: does not accept an event of this size/);
  const found = await findSnapshot(snapshotId(table), search(relays));
  expect(found).toMatchObject({ ok: false, issue: { message: 'no event carries or names it' } });
});

test('what is published while false claims are looked at is found too', async () => {
  const relay = await startRelay();
  const relays = await connect(relay);
  const table = tableOf(2000);
  const id = snapshotId(table);
  for (let i = 1; i <= 5; i++) {
    const root = `${i}`.repeat(64);
    const draft = kind.build(
      { id, root, bytes: 90_000, expiration: lifetime.expiresAt },
      createdAt,
    );
    await relays.publish(signerOf(2).sign(draft));
  }
  const finding = findSnapshot(id, search(await connect(relay)));
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await publishSnapshot(table, sending(relays, 1))).toBeUndefined();
  expect(await finding).toEqual({ ok: true, value: table });
});

test('of the roots that strangers claim, 32 are tried', async () => {
  const memory = createMemoryRelay('wss://memory.test');
  const clock = createManualClock();
  const id = 'ab'.repeat(32);
  for (let i = 0; i < 40; i++) {
    const root = `${i}`.padStart(64, '0');
    const claim = { id, root, bytes: 90_000, expiration: lifetime.expiresAt };
    memory.put(signerOf(2).sign(kind.build(claim, createdAt)));
  }
  const finding = findSnapshot(id, { ...search(memory.connect()), clock });
  await clock.advance(120_000);
  expect(await finding).toMatchObject({
    ok: false,
    issue: { message: 'none of 32 claimed roots has chunks with this hash' },
  });
});

test('chunks that are another table are named, and the search is over', async () => {
  const relay = await startRelay();
  const relays = await connect(relay);
  const bytes = snapshotBytes(tableOf(2000));
  expect(await sendChunks([bytes], 1, sending(relays, 2)).enough).toBe(true);
  const { root } = chunkTree(bytes);
  const said = { id: 'ab'.repeat(32), root, bytes: bytes.length, expiration: lifetime.expiresAt };
  await relays.publish(signerOf(2).sign(kind.build(said, createdAt)));
  const found = await findSnapshot(said.id, search(relays));
  expect(found).toMatchObject({
    ok: false,
    issue: { message: expect.stringContaining(`${root}: hashes to ${snapshotId(tableOf(2000))}`) },
  });
});

test('who stops looking is let go', async () => {
  const relay = await startRelay();
  const relays = await connect(relay);
  const id = 'ef'.repeat(32);
  const draft = { id, root: 'cd'.repeat(32), bytes: 100_000, expiration: lifetime.expiresAt };
  await relays.publish(signerOf(2).sign(kind.build(draft, createdAt)));
  const stop = new AbortController();
  const finding = findSnapshot(id, search(relays, stop.signal));
  setTimeout(() => stop.abort(new Error('enough')), 200);
  await expect(finding).rejects.toThrow('enough');
});
