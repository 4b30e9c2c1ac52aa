/**
 * Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2, the field of most
 * Reed-Solomon codes on bytes. Adding is XOR. Table look-ups, so not for secrets.
 */

const POLYNOMIAL = 0x11d;
const ORDER = 255;

/** Powers of 2, twice over, so that a sum of two logarithms needs no reduction. */
const POWER = new Uint8Array(2 * ORDER);
const LOG = new Uint8Array(256);
for (let i = 0, value = 1; i < ORDER; i++) {
  POWER[i] = value;
  POWER[i + ORDER] = value;
  LOG[value] = i;
  value <<= 1;
  if (value > 255) value ^= POLYNOMIAL;
}

export const multiply = (a: number, b: number): number =>
  a === 0 || b === 0 ? 0 : POWER[LOG[a]! + LOG[b]!]!;

/** The element whose product with `a` is 1. */
export function inverse(a: number): number {
  if (a === 0) throw new RangeError('0 has no inverse');
  return POWER[ORDER - LOG[a]!]!;
}

/** target += factor * source, byte by byte. */
export function addMultiple(target: Uint8Array, source: Uint8Array, factor: number): void {
  if (source.length !== target.length) {
    throw new RangeError(`${source.length} bytes added to ${target.length}`);
  }
  if (factor === 0) return;
  const products = Uint8Array.from({ length: 256 }, (_, value) => multiply(factor, value));
  for (let i = 0; i < target.length; i++) target[i] = target[i]! ^ products[source[i]!]!;
}
