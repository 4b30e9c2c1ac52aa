import { expect, test } from 'vitest';
import { sha256Hex } from '../../src/base/hash.ts';
import { refuse } from '../../src/base/result.ts';
import { createEventSource, createFileSource } from '../../src/chain/fixed-sources.ts';
import { formatStakeJson } from '../../src/run/stake-json.ts';
import { type StakeSnapshot, snapshotId, stakeRows } from '../../src/run/stake-snapshot.ts';

const signal = new AbortController().signal;
const keys = [1, 2, 3].map((number) => sha256Hex(Uint8Array.of(number)));
const snapshot: StakeSnapshot = {
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'stake' },
  blockHash: '00'.repeat(32),
  rows: stakeRows(keys.map((key, i) => [key, BigInt(i + 1)])),
};
const id = snapshotId(snapshot);

test('a file is taken when it is the snapshot asked for', async () => {
  const text = formatStakeJson(snapshot);
  const source = createFileSource('stakes.json', text, id);
  expect(source.name).toBe('file stakes.json');
  expect(await source.snapshot(0, signal)).toEqual(snapshot);
  expect(() => source.snapshot(1, signal)).toThrow(/only a chain goes on/);
  expect(() => createFileSource('stakes.json', text, '00'.repeat(32))).toThrow(/is snapshot/);
  expect(() => createFileSource('stakes.json', text.replace('"1"', '"2"'))).toThrow(/total is not/);
});

test('an event is what whoever has relays finds for the id', async () => {
  const asked: unknown[] = [];
  const source = createEventSource(id, async (...about) => {
    asked.push(about);
    return { ok: true, value: snapshot };
  });
  expect(await source.snapshot(0, signal)).toEqual(snapshot);
  expect(asked).toEqual([[id, signal]]);
  const nothing = createEventSource(id, async () => refuse('no-event', 'snapshot', 'not one'));
  await expect(nothing.snapshot(0, signal)).rejects.toMatchObject({
    ...{ code: 'chain/no-event', message: `no event carries snapshot ${id}: not one` },
  });
});
