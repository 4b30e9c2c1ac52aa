/** Payloads put together from events of any number of payloads, whole or erasure-coded. */
import {
  chunkTree,
  createSigner,
  heapChunks,
  planChunks,
  type SignedEvent,
} from 'nostrain/network';
import { expect, it } from 'vitest';
import { cutParts, type ErasureCoded, partsOf } from '../../../src/network/chunks/payload.ts';
import { drawnBytes } from '../../support/drawn-bytes.ts';

const signer = createSigner(new Uint8Array(32).fill(1));
const lifetime = { createdAt: 1_800_000_000, expiresAt: 1_800_003_600 };
const eventsOf = (payload: Uint8Array): readonly SignedEvent[] => {
  const plan = planChunks(payload, lifetime);
  return Array.from({ length: plan.count }, (_, i) => signer.sign(plan.draft(i)));
};
const rootOf = (payload: Uint8Array) => {
  const { root, bytes } = chunkTree(payload);
  return { root, bytes };
};
const MOST = 2 ** 20;
const payload = drawnBytes(150_001);

it('a payload is whole if all of its chunks are there, in any order among others', () => {
  const events = eventsOf(payload);
  const others = eventsOf(drawnBytes(50_000).fill(7, 0, 100));
  const forged = { ...events[1]!, content: events[2]!.content };
  const mixed = [forged, ...others, ...events.toReversed()];
  expect(heapChunks(mixed, MOST)(rootOf(payload))).toEqual(payload);
  expect(heapChunks(mixed.slice(0, -1), MOST)(rootOf(payload))).toBeUndefined();
  expect(heapChunks(mixed, payload.length)(rootOf(payload))).toEqual(payload);
  expect(heapChunks(mixed, payload.length - 1)(rootOf(payload))).toBeUndefined();
});

it('an erasure-coded one needs as many shards as its data has, and is no longer than the limit', () => {
  const erasure = { data: 2, parity: 1 };
  const parts = cutParts(payload, erasure);
  const shards = parts.map((part) => chunkTree(part).root);
  const coded: ErasureCoded = { ...rootOf(payload), need: 2, shards };
  expect(partsOf(coded)).toEqual({ need: 2, roots: parts.map(rootOf) });
  expect(partsOf(rootOf(payload))).toEqual({ need: 1, roots: [rootOf(payload)] });
  const heapOf = (indices: readonly number[], most = MOST) =>
    heapChunks(
      indices.flatMap((i) => eventsOf(parts[i]!)),
      most,
    )(coded);
  for (const indices of [
    [0, 1],
    [0, 2],
    [2, 1],
    [0, 1, 2],
  ])
    expect(heapOf(indices)).toEqual(payload);
  for (const indices of [[0], [2], []]) expect(heapOf(indices)).toBeUndefined();
  expect(heapOf([0, 1], payload.length)).toEqual(payload);
  expect(heapOf([0, 1], payload.length - 1)).toBeUndefined();
});
