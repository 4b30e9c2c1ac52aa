/**
 * Binary arithmetic coding in 32-bit integers (Martin's range coder with the carries of LZMA), with probabilities that adapt: each
 * bit costs what its context makes of it. The same bytes in every engine.
 */

/** Probabilities are of a zero bit, in 1/65536; each context has one that learns fast and one that learns slowly. */
const ONE = 65_536;
const [FAST, SLOW] = [4, 7];
const LEAST_RANGE = 0x100_0000;

export interface Contexts {
  readonly fast: Uint16Array;
  readonly slow: Uint16Array;
}

/** Contexts that know nothing yet. */
export const contexts = (count: number): Contexts => ({
  fast: new Uint16Array(count).fill(ONE / 2),
  slow: new Uint16Array(count).fill(ONE / 2),
});

/** The mean of both probabilities, from 15 of their bits so that neither side of a split is empty. */
const zeroShare = ({ fast, slow }: Contexts, at: number): number =>
  ((fast[at]! + slow[at]!) >>> 5) * 16 + 8;

function learn({ fast, slow }: Contexts, at: number, bit: number): void {
  if (bit === 0) {
    fast[at] = fast[at]! + ((ONE - 1 - fast[at]!) >>> FAST);
    slow[at] = slow[at]! + ((ONE - 1 - slow[at]!) >>> SLOW);
  } else {
    fast[at] = fast[at]! - (fast[at]! >>> FAST);
    slow[at] = slow[at]! - (slow[at]! >>> SLOW);
  }
}

/** Writes bits into bytes; what does not fit any more is counted, not written. */
export class RangeEncoder {
  /** Bytes so far, written or not. */
  length = 0;
  private low = 0;
  private range = 0xffff_ffff;
  private held = -1;
  private waiting = 0;
  private readonly out: Uint8Array;
  private readonly from: number;

  constructor(out: Uint8Array, from: number) {
    this.out = out;
    this.from = from;
  }

  /** A bit that a context expects more or less. */
  bit(known: Contexts, at: number, bit: number): void {
    const split = Math.imul(this.range >>> 16, zeroShare(known, at)) >>> 0;
    if (bit === 0) this.range = split;
    else {
      this.low += split;
      this.range = (this.range - split) >>> 0;
    }
    learn(known, at, bit);
    while (this.range < LEAST_RANGE) this.shift();
  }

  /** A bit that nobody can expect: it costs one. */
  evenBit(bit: number): void {
    this.range >>>= 1;
    if (bit !== 0) this.low += this.range;
    if (this.range < LEAST_RANGE) this.shift();
  }

  /** Writes what is left, so that a reader ends with code 0. Returns the count of bytes. */
  end(): number {
    for (let i = 0; i < 4; i++) this.shift();
    this.flush(0);
    return this.length;
  }

  /** Moves the uppermost byte out; one of 255s waits for a carry that may still come. */
  private shift(): void {
    const low = this.low;
    const carry = low > 0xffff_ffff ? 1 : 0;
    const top = (low >>> 24) & 0xff;
    if (carry === 1 || top !== 0xff) {
      this.flush(carry);
      this.held = top;
    } else {
      this.waiting++;
    }
    this.low = ((low >>> 0) & 0x00ff_ffff) * 256;
    this.range = (this.range << 8) >>> 0;
  }

  private flush(carry: number): void {
    if (this.held >= 0) this.put(this.held + carry);
    for (; this.waiting > 0; this.waiting--) this.put(0xff + carry);
    this.held = -1;
  }

  private put(byte: number): void {
    const at = this.from + this.length++;
    if (at < this.out.length) this.out[at] = byte & 0xff;
  }
}

/** Reads the bits again; beyond the end it reads zeros, which `end` tells. */
export class RangeDecoder {
  private code = 0;
  private range = 0xffff_ffff;
  private at: number;
  private readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array, from: number) {
    this.bytes = bytes;
    this.at = from;
    for (let i = 0; i < 4; i++) this.code = (this.code * 256 + this.next()) >>> 0;
  }

  bit(known: Contexts, at: number): number {
    const split = Math.imul(this.range >>> 16, zeroShare(known, at)) >>> 0;
    let bit = 0;
    if (this.code < split) this.range = split;
    else {
      bit = 1;
      this.code = (this.code - split) >>> 0;
      this.range = (this.range - split) >>> 0;
    }
    learn(known, at, bit);
    while (this.range < LEAST_RANGE) this.shift();
    return bit;
  }

  evenBit(): number {
    this.range >>>= 1;
    let bit = 0;
    if (this.code >= this.range) {
      bit = 1;
      this.code = (this.code - this.range) >>> 0;
    }
    if (this.range < LEAST_RANGE) this.shift();
    return bit;
  }

  /** Where the next byte would be, and whether what was read is exactly what an encoder ends with. */
  end(): { readonly at: number; readonly isWhole: boolean } {
    return { at: this.at, isWhole: this.code === 0 && this.at <= this.bytes.length };
  }

  private shift(): void {
    this.code = ((this.code << 8) | this.next()) >>> 0;
    this.range = (this.range << 8) >>> 0;
  }

  private next(): number {
    const at = this.at++;
    return at < this.bytes.length ? this.bytes[at]! : 0;
  }
}
