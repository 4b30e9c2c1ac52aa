/**
 * Codebook of the trellis code (a bit-shift trellis with a computed codebook, as in QTIP, arXiv 2406.11235): a state is
 * the last ten bits; each new bit moves to the next state, which stands for the next few values.
 */

/**
 * Bits of a state. At half a bit a value, 2^10 states add noise of 1.16 times the delta's energy; 2^12 add 1.11 in 4.5
 * times the time.
 */
const STATE_BITS = 10;
export const STATES = 2 ** STATE_BITS;
/** Standard deviation of codewords: sums of four uniform bytes. */
export const CODEWORD_SIZE = 148;
/** Mean of the sum of four bytes. */
const CENTRE = 510;

/** Returns the value that a state stands for at a position of its step: about normal, from -510 to 510. */
export function codeword(state: number, position: number): number {
  const mixed = (Math.imul(state, 0x9e3779b1) + Math.imul(position, 0x85ebca6b)) | 0;
  const hash = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d);
  const sum = (hash & 255) + ((hash >>> 8) & 255) + ((hash >>> 16) & 255) + (hash >>> 24);
  return sum - CENTRE;
}

/** Returns the most values of one step: bits are spread evenly over the values. */
export const stepLength = (count: number, bits: number): number => Math.ceil(count / bits);

/** Returns the codewords of each state, `length` values a state. */
export function codebook(length: number): Int16Array<ArrayBuffer> {
  const book = new Int16Array(STATES * length);
  for (let i = 0; i < book.length; i++) book[i] = codeword(Math.floor(i / length), i % length);
  return book;
}

/** Visits the values that bits stand for. Step t of `bits` has the values from floor(t * count / bits) on. */
export function decodeBits(
  bytes: Uint8Array,
  { at, bits, count }: { readonly at: number; readonly bits: number; readonly count: number },
  book: Int16Array,
  scale: number,
  out: Float64Array,
): void {
  const most = stepLength(count, bits);
  const least = Math.floor(count / bits);
  const rest = count - least * bits;
  let [state, to, carry] = [0, 0, 0];
  for (let step = 0; step < bits; step++) {
    const bit = (bytes[at + (step >>> 3)]! >>> (step & 7)) & 1;
    state = ((state << 1) | bit) & (STATES - 1);
    let length = least;
    carry += rest;
    if (carry >= bits) {
      carry -= bits;
      length++;
    }
    const from = state * most;
    for (let i = 0; i < length; i++) out[to++] = scale * book[from + i]!;
  }
}
