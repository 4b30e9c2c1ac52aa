/**
 * Adaptive binary range coder of small integers in 32-bit arithmetic (docs/payload.md). Written for speed: hot loops
 * copy fields into locals, which engines keep in registers.
 */

export const MOST_CODE = 127;
/** Magnitudes up to this are coded in unary, bit by bit; for larger ones `LONG_BITS` raw bits follow. */
export const COUNTED = 15;
export const LONG_BITS = 7;
/** Running mean of magnitudes, in 1/256, over about 32 values; each magnitude is clipped to 7. */
const [MEAN_SHIFT, MOST_COUNTED] = [5, 7];
/** Thresholds of the running mean between context kinds. */
const BOUNDS = [8, 16, 26, 38, 52, 77, 115, 179, 256, 384, 640];
const EXPECTED = Uint8Array.from(
  { length: 256 * MOST_COUNTED + 1 },
  (_, mean) => BOUNDS.filter((bound) => mean >= bound).length,
);
const KINDS = BOUNDS.length + 1;
/**
 * First context of `magnitude > 1` per kind, and of each further unary bit; contexts of `magnitude > 0` start at 0.
 */
const [ONES, COUNTS] = [KINDS, 2 * KINDS];

/** Estimated probability of a zero bit, in 1/65536: adapted fast (1/16 of the error) and slowly (1/128). */
interface Contexts {
  readonly fast: Uint16Array;
  readonly slow: Uint16Array;
}

const contexts = (): Contexts => ({
  fast: new Uint16Array(COUNTS + COUNTED).fill(0x8000),
  slow: new Uint16Array(COUNTS + COUNTED).fill(0x8000),
});

/** Marks a raw bit with probability 1/2; the lowest bit is the bit itself. */
const EVEN = -0x20000;

/** Returns a bit (0 or -1) with its estimated probability, as `RangeEncoder.put` takes it, and adapts the context. */
function expectBit(fast: Uint16Array, slow: Uint16Array, at: number, bit: number): number {
  const quick = fast[at]!;
  const steady = slow[at]!;
  fast[at] = quick + (((0xffff - quick) >>> 4) & ~bit) - ((quick >>> 4) & bit);
  slow[at] = steady + (((0xffff - steady) >>> 7) & ~bit) - ((steady >>> 7) & bit);
  return ((((quick + steady) >>> 5) * 16 + 8) << 1) - bit;
}

/** Range encoder. Bytes beyond the end of the output are counted but not written. */
class RangeEncoder {
  length = 0;
  private low = 0;
  private range = 0xffff_ffff;
  private readonly out: Uint8Array;
  private readonly from: number;

  constructor(out: Uint8Array, from: number) {
    this.out = out;
    this.from = from;
  }

  /** Encodes the first `count` of these bits, each with its probability. */
  put(bits: Int32Array, count: number): void {
    const { out } = this;
    let { low, range } = this;
    let at = this.from + this.length;
    for (let i = 0; i < count; i++) {
      const expected = bits[i]!;
      const share = (expected >>> 1) & 0xffff;
      const even = expected >> 31;
      const split = (Math.imul(range >>> 16, share) | ((range >>> 1) & even)) >>> 0;
      const one = -(expected & 1);
      const before = low;
      low = (low + (split & one)) >>> 0;
      if (low < before) carry(out, at - 1);
      range = (split ^ ((split ^ (range - split)) & one & ~even)) >>> 0;
      while (range < 0x1000000) {
        if (at < out.length) out[at] = low >>> 24;
        at++;
        low = (low << 8) >>> 0;
        range = (range << 8) >>> 0;
      }
    }
    this.low = low;
    this.range = range;
    this.length = at - this.from;
  }

  /** Flushes the encoder, so that a decoder ends with code 0. Returns the number of bytes. */
  end(): number {
    for (let shift = 24; shift >= 0; shift -= 8) {
      const at = this.from + this.length++;
      if (at < this.out.length) this.out[at] = (this.low >>> shift) & 0xff;
    }
    return this.length;
  }
}

/** Adds 1 to the last byte written and propagates the carry. */
function carry(out: Uint8Array, last: number): void {
  let at = Math.min(last, out.length - 1);
  while (out[at] === 0xff) out[at--] = 0;
  out[at] = out[at]! + 1;
}

/** Values per block, and the maximum bits of one value. */
const [BLOCK, BITS_OF_ONE] = [1024, 3 + COUNTED + LONG_BITS];

/** Adaptive state between blocks. */
interface Expecting extends Contexts {
  mean: number;
  readonly bits: Int32Array;
}

/** Encodes codes and returns their bytes. Once the output is full, the rest is estimated by extrapolation. */
export function writeCodes(codes: Int8Array, out: Uint8Array, from: number): number {
  const coder = new RangeEncoder(out, from);
  const bits = new Int32Array(BLOCK * BITS_OF_ONE);
  const known: Expecting = { ...contexts(), mean: 0, bits };
  for (let at = 0; at < codes.length; at += BLOCK) {
    const to = Math.min(codes.length, at + BLOCK);
    coder.put(bits, expect(codes, at, to, known));
    if (from + coder.length > out.length) return Math.ceil((coder.length * codes.length) / to);
  }
  return coder.end();
}

/** Writes the bits of some codes with their probabilities; returns how many. Avoids unpredictable branches. */
function expect(codes: Int8Array, from: number, to: number, known: Expecting): number {
  const { bits, fast, slow } = known;
  // locals stay in registers, module constants are read again for each value
  const [expected, ones, even, most, shift] = [EXPECTED, ONES, EVEN, MOST_COUNTED, MEAN_SHIFT];
  let { mean } = known;
  let count = 0;
  for (let i = from; i < to; i++) {
    const code = codes[i]!;
    const negative = code >> 31;
    const size = (code ^ negative) - negative;
    const some = -size >> 31;
    const kind = expected[mean]!;
    bits[count] = expectBit(fast, slow, kind, some);
    bits[count + 1] = even | -negative;
    mean += ((Math.min(size, most) << 8) - mean) >> shift;
    count += 1 - some;
    if (size > 1) count = expectMore(size, kind, known, count);
    else if (some) bits[count++] = expectBit(fast, slow, ones + kind, 0);
  }
  known.mean = mean;
  return count;
}

function expectMore(size: number, kind: number, known: Expecting, from: number): number {
  const { bits, fast, slow } = known;
  let count = from;
  bits[count++] = expectBit(fast, slow, ONES + kind, -1);
  for (let more = 2; more < COUNTED; more++) {
    if (size === more) {
      bits[count++] = expectBit(fast, slow, COUNTS + more, 0);
      return count;
    }
    bits[count++] = expectBit(fast, slow, COUNTS + more, -1);
  }
  for (let bit = LONG_BITS - 1; bit >= 0; bit--) {
    bits[count++] = EVEN | (((size - COUNTED) >>> bit) & 1);
  }
  return count;
}

/** State of the decoder. Bytes beyond the end read as 0; `at` shows that. */
interface Incoming {
  readonly bytes: Uint8Array;
  at: number;
  code: number;
  range: number;
}

export interface ReadCodes {
  readonly largest: number;
  readonly end: number;
  /** Whether the bytes end exactly where an encoder would end. */
  readonly isWhole: boolean;
}

/** Decodes into `codes`, which must be zero. The bits that every value has are read inline, for speed. */
export function readCodes(bytes: Uint8Array, from: number, codes: Int8Array): ReadCodes {
  const input: Incoming = { bytes, at: from, code: 0, range: 0 };
  for (let i = 0; i < 4; i++) shift(input);
  input.range = 0xffff_ffff;
  const known = contexts();
  const { fast, slow } = known;
  const [expected, ones, most, rate] = [EXPECTED, ONES, MOST_COUNTED, MEAN_SHIFT];
  let [mean, largest] = [0, 0];
  let { code, range } = input;
  for (let i = 0; i < codes.length; i++) {
    const kind = expected[mean]!;
    const quick = fast[kind]!;
    const steady = slow[kind]!;
    const split = Math.imul(range >>> 16, ((quick + steady) >>> 5) * 16 + 8) >>> 0;
    if (code < split) {
      fast[kind] = quick + ((0xffff - quick) >>> 4);
      slow[kind] = steady + ((0xffff - steady) >>> 7);
      range = split;
      mean += -mean >> rate;
      if (range >= 0x1000000) continue;
      [input.code, input.range] = [code, range];
      refill(input);
      ({ code, range } = input);
      continue;
    }
    fast[kind] = quick - (quick >>> 4);
    slow[kind] = steady - (steady >>> 7);
    input.code = (code - split) >>> 0;
    input.range = (range - split) >>> 0;
    if (input.range < 0x1000000) refill(input);
    const negative = -readEven(input);
    const size = readBit(input, fast, slow, ones + kind) === 0 ? 1 : readMore(input, known);
    if (size > largest) largest = size;
    if (size > MOST_CODE) break;
    codes[i] = (size ^ negative) - negative;
    mean += ((Math.min(size, most) << 8) - mean) >> rate;
    ({ code, range } = input);
  }
  return { largest, end: input.at, isWhole: code === 0 && input.at <= bytes.length };
}

function readBit(input: Incoming, fast: Uint16Array, slow: Uint16Array, at: number): number {
  const { code, range } = input;
  const quick = fast[at]!;
  const steady = slow[at]!;
  const split = Math.imul(range >>> 16, ((quick + steady) >>> 5) * 16 + 8) >>> 0;
  if (code < split) {
    fast[at] = quick + ((0xffff - quick) >>> 4);
    slow[at] = steady + ((0xffff - steady) >>> 7);
    input.range = split;
    if (split < 0x1000000) refill(input);
    return 0;
  }
  fast[at] = quick - (quick >>> 4);
  slow[at] = steady - (steady >>> 7);
  input.code = (code - split) >>> 0;
  input.range = (range - split) >>> 0;
  if (input.range < 0x1000000) refill(input);
  return 1;
}

function readEven(input: Incoming): number {
  const half = input.range >>> 1;
  const bit = input.code < half ? 0 : 1;
  input.code = (input.code - (half & -bit)) >>> 0;
  input.range = half;
  if (half < 0x1000000) refill(input);
  return bit;
}

function readMore(input: Incoming, { fast, slow }: Contexts): number {
  const [counts, counted] = [COUNTS, COUNTED];
  let size = 2;
  while (size < counted && readBit(input, fast, slow, counts + size) === 1) size++;
  if (size < counted) return size;
  let more = 0;
  for (let bit = 0; bit < LONG_BITS; bit++) more = 2 * more + readEven(input);
  return size + more;
}

function refill(input: Incoming): void {
  do shift(input);
  while (input.range < 0x1000000);
}

function shift(input: Incoming): void {
  const at = input.at++;
  const byte = at < input.bytes.length ? input.bytes[at]! : 0;
  input.code = ((input.code << 8) | byte) >>> 0;
  input.range = (input.range << 8) >>> 0;
}
