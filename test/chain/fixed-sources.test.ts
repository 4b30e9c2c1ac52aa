import { expect, test } from 'vitest';
import { fromHex, toBase64 } from '../../src/base/bytes.ts';
import { sha256Hex } from '../../src/base/hash.ts';
import { createEventSource, createFileSource } from '../../src/chain/fixed-sources.ts';
import { createSigner } from '../../src/network/event.ts';
import { buildSnapshot, snapshotFilter } from '../../src/network/wire/snapshots.ts';
import { formatStakeJson } from '../../src/run/stake-json.ts';
import { type StakeSnapshot, snapshotId, stakeRows } from '../../src/run/stake-snapshot.ts';

const signal = new AbortController().signal;
const signer = createSigner(fromHex('03'.padStart(64, '0'))!);
const keys = Array.from({ length: 940 }, (_, i) => sha256Hex(Uint8Array.of(i, i >> 8)));
const snapshotOf = (rows: number): StakeSnapshot => ({
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'stake' },
  blockHash: '00'.repeat(32),
  rows: stakeRows(keys.slice(0, rows).map((key, i) => [key, BigInt(i + 1)])),
});
const snapshot = snapshotOf(3);
const id = snapshotId(snapshot);
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_086_400 };

test('a file is taken when it is the snapshot asked for', async () => {
  const text = formatStakeJson(snapshot);
  const source = createFileSource('stakes.json', text, id);
  expect(source.name).toBe('file stakes.json');
  expect(await source.snapshot(0, signal)).toEqual(snapshot);
  expect(() => source.snapshot(1, signal)).toThrow(/only a chain goes on/);
  expect(() => createFileSource('stakes.json', text, '00'.repeat(32))).toThrow(/is snapshot/);
  expect(() => createFileSource('stakes.json', text.replace('"1"', '"2"'))).toThrow(/total is not/);
});

test('an event is taken from whoever signed it, false twins are passed over', async () => {
  const event = signer.sign(buildSnapshot(snapshot, lifetime));
  const other = buildSnapshot(snapshotOf(2), lifetime);
  const twin = { ...event, content: other.content };
  const noise = { ...event, content: toBase64(Uint8Array.of(1, 2, 3)) };
  const asked: unknown[] = [];
  const source = createEventSource(id, async (filter) => {
    asked.push(filter);
    return [noise, twin, event];
  });
  expect(await source.snapshot(0, signal)).toEqual(snapshot);
  expect(asked).toEqual([snapshotFilter(id)]);
  const without = createEventSource(id, async () => [twin, noise]);
  await expect(without.snapshot(0, signal)).rejects.toThrow(/hashes to [0-9a-f]{64}/);
  const nothing = createEventSource(id, async () => []);
  await expect(nothing.snapshot(0, signal)).rejects.toMatchObject({ code: 'chain/no-event' });
});

test('what does not fit an event is a file', () => {
  expect(JSON.stringify(signer.sign(buildSnapshot(snapshotOf(930), lifetime))).length).toBeLessThan(
    65_536,
  );
  expect(() => buildSnapshot(snapshotOf(940), lifetime)).toThrow(/an event carries 45056/);
});
