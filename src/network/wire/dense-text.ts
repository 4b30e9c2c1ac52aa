/** Payloads as dense text (`kinds/_dense.ts`), and in the content of a manifest. */
import {
  DENSE_BLOCK,
  DENSE_BYTES,
  DENSE_LETTERS,
  DENSE_VALUES,
  denseLength,
} from '../../../kinds/_dense.ts';
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { INSIDE_BYTES } from '../../../kinds/manifest.ts';
import { fromBase64, toBase64 } from '../../base/bytes.ts';

const BASE = DENSE_LETTERS.length;
const LETTERS = new TextEncoder().encode(DENSE_LETTERS);
/** A block is six numbers of 28 bits, the most significant first: two are seven bytes. */
const [LIMBS, LIMB] = [6, 2 ** 28];

/** Encodes bytes as dense text: each block is a number in base 89, its bytes and letters most significant first. */
export function toDense(bytes: Uint8Array): string {
  const padded = new Uint8Array(DENSE_BYTES * Math.ceil(bytes.length / DENSE_BYTES));
  padded.set(bytes);
  const out = new Uint8Array(denseLength(bytes.length));
  const limbs = new Float64Array(LIMBS);
  for (let block = 0; block * DENSE_BYTES < padded.length; block++) {
    readLimbs(padded, block * DENSE_BYTES, limbs);
    for (let i = DENSE_BLOCK - 1; i >= 0; i--) {
      let rest = 0;
      for (let j = 0; j < LIMBS; j++) {
        const value = rest * LIMB + limbs[j]!;
        limbs[j] = Math.floor(value / BASE);
        rest = value % BASE;
      }
      out[block * DENSE_BLOCK + i] = LETTERS[rest]!;
    }
  }
  return new TextDecoder().decode(out);
}

/** Decodes dense letters of `length` bytes; undefined if a block is too large or the padding is not zero. */
export function fromDense(text: string, length: number): Uint8Array | undefined {
  const out = new Uint8Array((text.length / DENSE_BLOCK) * DENSE_BYTES);
  const limbs = new Float64Array(LIMBS);
  for (let block = 0; block * DENSE_BLOCK < text.length; block++) {
    limbs.fill(0);
    let carry = 0;
    for (let i = 0; i < DENSE_BLOCK && carry === 0; i++) {
      carry = DENSE_VALUES[text.charCodeAt(block * DENSE_BLOCK + i)]!;
      for (let j = LIMBS - 1; j >= 0; j--) {
        const value = limbs[j]! * BASE + carry;
        limbs[j] = value % LIMB;
        carry = Math.floor(value / LIMB);
      }
    }
    if (carry > 0) return undefined;
    writeLimbs(limbs, out, block * DENSE_BYTES);
  }
  return out.subarray(length).every((byte) => byte === 0) ? out.slice(0, length) : undefined;
}

/** Reads two limbs from each seven bytes. */
function readLimbs(bytes: Uint8Array, at: number, limbs: Float64Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let i = 0; i < LIMBS; i += 2) {
    const from = at + 3.5 * i;
    limbs[i] = view.getUint32(from) >>> 4;
    limbs[i + 1] = view.getUint32(from + 3) & (LIMB - 1);
  }
}

function writeLimbs(limbs: Float64Array, bytes: Uint8Array, at: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let i = 0; i < LIMBS; i += 2) {
    const from = at + 3.5 * i;
    view.setUint32(from + 3, limbs[i + 1]!);
    view.setUint32(from, limbs[i]! * 16 + (limbs[i + 1]! >>> 24));
  }
}

/** How the content of a manifest carries a payload. */
interface Inside {
  readonly payload?: string | undefined;
  readonly dense?: string | undefined;
}

/** Returns the content members with a payload: none if it needs chunks. */
export function insideOf(payload: Uint8Array): Inside {
  if (payload.length <= CHUNK_BYTES) return { payload: toBase64(payload) };
  return payload.length <= INSIDE_BYTES ? { dense: toDense(payload) } : {};
}

/** Returns the payload of `bytes` bytes inside a content; undefined if its text is not canonical. */
export const payloadInside = ({ payload, dense }: Inside, bytes: number): Uint8Array | undefined =>
  dense === undefined ? fromBase64(payload ?? '') : fromDense(dense, bytes);
