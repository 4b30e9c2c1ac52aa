/** SHA-256: of bytes, of labelled fields, and of many messages with a common prefix. */
import { sha256 as nobleSha256 } from '@noble/hashes/sha2.js';
import { concatBytes, fromHex, toHex, utf8 } from './bytes.ts';

/** Returns the SHA-256 of the bytes, 32 bytes. */
export const sha256 = (bytes: Uint8Array): Uint8Array => nobleSha256(bytes);

/** Returns the SHA-256 of the bytes, in hex. */
export const sha256Hex = (bytes: Uint8Array): string => toHex(nobleSha256(bytes));

/** An incremental SHA-256, for data that is never in one buffer. */
export type CreateSha256 = () => { update(bytes: Uint8Array): unknown; digest(): Uint8Array };

/** The implementation of @noble/hashes, which runs in every environment. */
export const createSha256: CreateSha256 = () => nobleSha256.create();

/** Returns SHA-256 over a label and length-prefixed UTF-8 fields, so that no two lists of fields collide. */
export function hashFields(label: string, ...fields: readonly (string | number)[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const field of [label, ...fields]) {
    const bytes = utf8(String(field));
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, bytes.length, true);
    parts.push(length, bytes);
  }
  return sha256(concatBytes(...parts));
}

export const taggedHash = (tag: string, ...fields: readonly Uint8Array[]): Uint8Array =>
  sha256(concatBytes(utf8(tag), ...fields));

/** Encodes a u32 as four bytes, big-endian. */
export function u32(value: number): Uint8Array {
  if (value !== value >>> 0) throw new RangeError(`${value} is not a u32`);
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value);
  return out;
}

/** Decodes a digest or key of 32 bytes from hex. Throws a RangeError for anything else. */
export function bytes32(hex: string): Uint8Array {
  const bytes = fromHex(hex);
  if (bytes?.length !== 32) throw new RangeError(`${hex} is not 32 bytes in hex`);
  return bytes;
}

/** 32-bit words of a digest, and of a tail. */
export const WORDS = 8;
const PREFIX_BYTES = 64;
/** Length of a whole message in bits, which SHA-256 padding encodes. */
const MESSAGE_BITS = 8 * (PREFIX_BYTES + 4 * WORDS);
const ROUNDS = 64;

// biome-ignore format: the table of the standard
const K = Int32Array.of(
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
);
// biome-ignore format: the table of the standard
const INITIAL = Int32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
);

/**
 * Returns the SHA-256 (FIPS 180-4) of many messages that share a 64-byte prefix. `tails` holds the 32-byte endings as
 * big-endian words. The prefix is hashed once and each tail takes one block without allocation: four times as fast as
 * hashing each message.
 */
export function hashTails(prefix: Uint8Array, tails: Uint32Array): Uint32Array {
  if (prefix.length !== PREFIX_BYTES || tails.length % WORDS !== 0) {
    throw new RangeError(`${prefix.length} bytes before ${tails.length} words`);
  }
  const block = new Int32Array(ROUNDS);
  const view = new DataView(prefix.buffer, prefix.byteOffset, PREFIX_BYTES);
  for (let i = 0; i < 16; i++) block[i] = view.getInt32(4 * i);
  const begun = new Int32Array(WORDS);
  compress(INITIAL, block, begun);
  const out = new Uint32Array(tails.length);
  const state = new Int32Array(WORDS);
  for (let at = 0; at < tails.length; at += WORDS) {
    for (let i = 0; i < WORDS; i++) block[i] = tails[at + i]!;
    block[8] = 0x80000000;
    block.fill(0, 9, 15);
    block[15] = MESSAGE_BITS;
    compress(begun, block, state);
    for (let i = 0; i < WORDS; i++) out[at + i] = state[i]!;
  }
  return out;
}

/** Compresses one block, given its first 16 words. Expands the block in place and writes the state after it to `to`. */
function compress(from: Int32Array, block: Int32Array, to: Int32Array): void {
  for (let t = 16; t < ROUNDS; t++) {
    const x = block[t - 15]!;
    const y = block[t - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    block[t] = block[t - 16]! + s0 + block[t - 7]! + s1;
  }
  let a = from[0]!;
  let b = from[1]!;
  let c = from[2]!;
  let d = from[3]!;
  let e = from[4]!;
  let f = from[5]!;
  let g = from[6]!;
  let h = from[7]!;
  for (let t = 0; t < ROUNDS; t++) {
    const S1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const S0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t1 = (h + S1 + (g ^ (e & (f ^ g))) + K[t]! + block[t]!) | 0;
    const t2 = (S0 + ((a & b) | (c & (a | b)))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  to[0] = from[0]! + a;
  to[1] = from[1]! + b;
  to[2] = from[2]! + c;
  to[3] = from[3]! + d;
  to[4] = from[4]! + e;
  to[5] = from[5]! + f;
  to[6] = from[6]! + g;
  to[7] = from[7]! + h;
}
