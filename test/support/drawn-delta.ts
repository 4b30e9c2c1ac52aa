/** Draws reproducible deltas, and defines the scope of payloads made from them. */
import { deriveKey, philox } from 'nostrain/base';
import type { PayloadScope } from 'nostrain/network';
import { CHUNK_LENGTH } from 'nostrain/tensor';

/** Run and roster of every payload here, and all chunks unless given. */
export function scopeOf(size: number, chunks?: readonly number[]): PayloadScope {
  const all = Array.from({ length: Math.ceil(size / CHUNK_LENGTH) }, (_, i) => i);
  return {
    run: new Uint8Array(32).fill(7),
    round: 5,
    size,
    roster: new Uint8Array(32).fill(8),
    sender: new Uint8Array(32).fill(9),
    chunks: Uint32Array.from(chunks ?? all),
  };
}

/** A delta of sums of uniform draws, each chunk with its own size. */
export function drawnDelta(size: number, stream = 0): Float64Array {
  const key = deriveKey('test/codec', stream);
  return Float64Array.from({ length: size }, (_, i) => {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    return ((a + b - c - d) / 2 ** 40) * (1 + Math.floor(i / CHUNK_LENGTH));
  });
}
