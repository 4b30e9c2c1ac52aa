/** Payloads that arrived in chunks stay within memory limits, per key and in total. */

import { createEvidenceStore } from 'nostrain/certified/parts';
import { type Manifest, pureCrypto } from 'nostrain/network';
import { describe, expect, it } from 'vitest';

const manifest = (worker: string, root: string, round = 0) =>
  ({ worker, root, round, payload: undefined }) as Manifest;

function storeWith(payloads: readonly (readonly [worker: string, root: string])[]) {
  const store = createEvidenceStore(pureCrypto, { payloadBytes: 100, inAll: 2000 });
  for (const [worker, root] of payloads) {
    store.addPayload(manifest(worker, root), new Uint8Array(100));
  }
  return (worker: string, root: string) => store.payload(manifest(worker, root)) !== undefined;
}

describe('payloads', () => {
  it('of one key are limited to eight of the largest size: the oldest is evicted', () => {
    const mine = Array.from({ length: 9 }, (_, i) => ['me', `mine ${i}`] as const);
    const has = storeWith([['other', 'theirs'], ...mine]);
    expect(has('me', 'mine 0')).toBe(false);
    expect(has('me', 'mine 1')).toBe(true);
    expect(has('other', 'theirs')).toBe(true);
  });

  it('of all keys together are limited: the key with the most bytes loses its oldest', () => {
    const many = Array.from({ length: 24 }, (_, i) => [`key ${i % 3}`, `${i}`] as const);
    const has = storeWith([['honest', 'one'], ...many]);
    expect(has('honest', 'one')).toBe(true);
    const kept = many.filter(([worker, root]) => has(worker, root));
    expect(kept).toHaveLength(19);
  });
});
