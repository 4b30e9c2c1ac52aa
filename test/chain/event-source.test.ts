import { refuse, sha256Hex } from 'nostrain/base';
import { type StakeSnapshot, snapshotId, stakeRows } from 'nostrain/run';
import { expect, test } from 'vitest';
import { createEventSource } from '../../src/chain/stake-documents.ts';

const signal = new AbortController().signal;
const keys = [1, 2, 3].map((number) => sha256Hex(Uint8Array.of(number)));
const snapshot: StakeSnapshot = {
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'stake' },
  blockHash: '00'.repeat(32),
  rows: stakeRows(keys.map((key, i) => [key, BigInt(i + 1)])),
};
const id = snapshotId(snapshot);

test('an event is what whoever has relays finds for the id', async () => {
  const asked: unknown[] = [];
  const source = createEventSource(id, async (...about) => {
    asked.push(about);
    return { ok: true, value: snapshot };
  });
  expect(await source.snapshot(0, signal)).toEqual(snapshot);
  await expect(source.snapshot(1, signal)).rejects.toThrow(/only a chain has later epochs/);
  expect(asked).toEqual([[id, signal]]);
  const nothing = createEventSource(id, async () => refuse('no-event', 'snapshot', 'not one'));
  await expect(nothing.snapshot(0, signal)).rejects.toMatchObject({
    ...{ code: 'chain/no-event', message: `no event carries snapshot ${id}: not one` },
  });
});
