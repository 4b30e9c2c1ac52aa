/** Tagged SHA-256 over fields of fixed size (domain separation), used for outcomes, committees and round randomness. */
import { concatBytes, fromHex, utf8 } from './bytes.ts';
import { sha256 } from './hash.ts';

export const taggedHash = (tag: string, ...fields: readonly Uint8Array[]): Uint8Array =>
  sha256(concatBytes(utf8(tag), ...fields));

/** Four bytes, big-endian. */
export function u32(value: number): Uint8Array {
  if (value !== value >>> 0) throw new RangeError(`${value} is not a u32`);
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value);
  return out;
}

/** The 32 bytes of a digest or key in hex. */
export function bytes32(hex: string): Uint8Array {
  const bytes = fromHex(hex);
  if (bytes?.length !== 32) throw new RangeError(`${hex} is not 32 bytes in hex`);
  return bytes;
}
