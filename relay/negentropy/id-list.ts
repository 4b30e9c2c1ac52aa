/** Ids in order of time, and the fingerprints of their ranges, as Negentropy V1 (NIP-77) wants them. */
import { createHash } from 'node:crypto';

export interface Item {
  readonly timestamp: number;
  readonly id: Uint8Array;
}

const ID_BYTES = 32;
const FINGERPRINT_BYTES = 16;
const MODULUS = 1n << 256n;

const compare = (a: Item, b: Item): number =>
  a.timestamp - b.timestamp || Buffer.compare(a.id, b.id);

/** A number in base 128, most significant digit first; all but the last digit carry the high bit. */
export function encodeVarint(value: number): Uint8Array {
  const digits = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    digits.unshift((rest % 128) | 128);
  }
  return Uint8Array.from(digits);
}

export class IdList {
  readonly #items: readonly Item[];

  constructor(entries: Iterable<{ readonly id: string; readonly created_at: number }>) {
    this.#items = Array.from(entries, ({ id, created_at }) => ({
      timestamp: created_at,
      id: Buffer.from(id, 'hex'),
    })).sort(compare);
  }

  get size(): number {
    return this.#items.length;
  }

  at(index: number): Item {
    return this.#items[index]!;
  }

  /** The first index from `from` on that is not before the bound. */
  lowerBound(from: number, bound: Item): number {
    let [low, high] = [from, this.size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compare(this.at(middle), bound) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Of the sum of the ids, little-endian, and their count. */
  fingerprint(from: number, to: number): Uint8Array {
    let sum = 0n;
    for (let i = from; i < to; i++) {
      sum += BigInt(`0x${Buffer.from(this.at(i).id).reverse().toString('hex')}`);
    }
    const hex = (sum % MODULUS).toString(16).padStart(2 * ID_BYTES, '0');
    const hash = createHash('sha256').update(Buffer.from(hex, 'hex').reverse());
    return hash
      .update(encodeVarint(to - from))
      .digest()
      .subarray(0, FINGERPRINT_BYTES);
  }
}
