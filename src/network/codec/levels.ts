/**
 * Value codes of one to two bits: q2 (a sign and two levels), ternary (-1, 0, 1 times a level) and sign (± a level).
 */
import {
  type ChunkValues,
  isLevel,
  levelBits,
  levelOf,
  MAGNITUDE,
  readLevelBits,
  SAMPLE,
  singleBits,
  sumAbove,
  sumAboveSampled,
  type ValueCode,
  writeLevelBits,
} from './value-code.ts';

const SAMPLED = 2;
/** Mask of the sign bits of the four codes in a byte. */
const SIGN_BITS = 0x55;

/** Fits both levels in a few k-means steps; returns their bits, the lower level first. */
function levelsFor(values: ChunkValues, n: number): readonly [number, number] {
  const { sum: all, sampled } = values;
  const taken = Math.ceil(n / SAMPLE);
  let [lower, upper] = [all / n, all / n];
  const step = (count: number, sum: number, total: number, of: number) => {
    if (count > 0) upper = sum / count;
    if (count < of) lower = Math.max(0, total - sum) / (of - count);
  };
  for (let i = 0; i < SAMPLED; i++) {
    const { count, sum } = sumAboveSampled(values, n, (lower + upper) / 2);
    step(count, sum, sampled, taken);
  }
  const { count, sum } = sumAbove(values, n, (lower + upper) / 2);
  step(count, sum, all, n);
  const high = levelBits(upper);
  return [Math.min(levelBits(lower), high), high];
}

function writeCodes(
  { bits }: ChunkValues,
  n: number,
  low: number,
  high: number,
  out: Uint8Array,
  at: number,
): void {
  if (high === 0) return;
  writeLevelBits(out, at, low);
  writeLevelBits(out, at + 2, high);
  const split = low === high ? MAGNITUDE : singleBits((levelOf(low) + levelOf(high)) / 2);
  const whole = n & ~3;
  let to = at + 4;
  for (let i = 0; i < whole; i += 4) {
    const a = bits[i]!;
    const b = bits[i + 1]!;
    const c = bits[i + 2]!;
    const d = bits[i + 3]!;
    // packs sign and level bit; the level bit is the sign of a subtraction, 1 above the split
    out[to++] =
      (a >>> 31) |
      (((split - (a & MAGNITUDE)) >>> 30) & 2) |
      ((b >>> 29) & 4) |
      (((split - (b & MAGNITUDE)) >>> 28) & 8) |
      ((c >>> 27) & 16) |
      (((split - (c & MAGNITUDE)) >>> 26) & 32) |
      ((d >>> 25) & 64) |
      (((split - (d & MAGNITUDE)) >>> 24) & 128);
  }
  for (let i = whole; i < n; i++) {
    const code = (bits[i]! >>> 31) | (((split - (bits[i]! & MAGNITUDE)) >>> 30) & 2);
    out[to] = out[to]! | (code << (2 * (i & 3)));
  }
  if (low > 0) return;
  // a lower level of 0 has no sign: there is no minus zero
  const end = at + q2.bytes(n);
  for (let i = at + 4; i < end; i++) out[i] = out[i]! & (~SIGN_BITS | (out[i]! >>> 1));
}

export const q2: ValueCode = {
  bytes: (n) => 4 + Math.ceil(n / 4),

  write(values, n, out, at) {
    const [low, high] = levelsFor(values, n);
    writeCodes(values, n, low, high, out, at);
    if (q2.flaw(out, at, n) === undefined) return;
    // all values have the same level: write it twice and code every value as the lower one
    const isUpper = (out[at + 4]! & 2) !== 0;
    out.fill(0, at, at + q2.bytes(n));
    writeCodes(values, n, isUpper ? high : low, isUpper ? high : low, out, at);
  },

  flaw(bytes, at, n) {
    const low = readLevelBits(bytes, at);
    const high = readLevelBits(bytes, at + 2);
    if (!isLevel(low) || !isLevel(high) || low > high) return 'bad-level';
    const end = at + 4 + Math.ceil(n / 4);
    const unused = n % 4 === 0 ? 0 : (0xff << (2 * (n % 4))) & 0xff;
    let anyHigh = 0;
    let anyLow = 0;
    let negativeLow = 0;
    for (let i = at + 4; i < end; i++) {
      const highs = bytes[i]! >>> 1;
      anyHigh |= highs;
      anyLow |= ~highs & (i === end - 1 ? ~unused : -1);
      negativeLow |= bytes[i]! & ~highs;
    }
    if ((bytes[end - 1]! & unused) !== 0) return 'bad-padding';
    if (low === 0 && (negativeLow & SIGN_BITS) !== 0) return 'bad-value';
    // refuse a level that no value uses: it could be anything
    const usesBoth = (anyHigh & SIGN_BITS) !== 0 && (anyLow & SIGN_BITS) !== 0;
    const usesLow = (anyHigh & SIGN_BITS) === 0;
    return (low < high ? usesBoth : usesLow) ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const low = levelOf(readLevelBits(bytes, at)) * weight;
    const high = levelOf(readLevelBits(bytes, at + 2)) * weight;
    const signedLevels = Float64Array.of(low, -low, high, -high);
    const whole = n & ~3;
    let read = at + 4;
    for (let i = from; i < from + whole; i += 4) {
      const four = bytes[read++]!;
      target[i] = target[i]! + signedLevels[four & 3]!;
      target[i + 1] = target[i + 1]! + signedLevels[(four >>> 2) & 3]!;
      target[i + 2] = target[i + 2]! + signedLevels[(four >>> 4) & 3]!;
      target[i + 3] = target[i + 3]! + signedLevels[four >>> 6]!;
    }
    for (let i = whole; i < n; i++) {
      target[from + i] = target[from + i]! + signedLevels[(bytes[read]! >>> (2 * (i & 3))) & 3]!;
    }
  },
};

/** Bytes from 243 on are not five base-3 digits. */
const BYTES = 243;
/** Value of each digit of each byte, lowest digit first: 0, 1 and -1 for digits 0, 1 and 2. */
const TRITS = Float64Array.from({ length: BYTES * 5 }, (_, i) => {
  const digit = Math.floor(Math.floor(i / 5) / 3 ** (i % 5)) % 3;
  return digit === 2 ? -1 : digit;
});

function levelFor(values: ChunkValues, n: number): number {
  const start = (0.8 * values.sum) / n;
  const sample = sumAboveSampled(values, n, start);
  const threshold = sample.count === 0 ? start : sample.sum / sample.count / 2;
  const { count, sum } = sumAbove(values, n, threshold);
  return count === 0 ? 0 : levelBits(sum / count);
}

export const ternary: ValueCode = {
  bytes: (n) => 2 + Math.ceil(n / 5),

  write(values, n, out, at) {
    const level = levelFor(values, n);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const half = singleBits(levelOf(level) / 2);
    const { bits } = values;
    // 0 at or below half the level, otherwise 1 for a positive value and 2 for a negative one
    const digit = (word: number): number => ((half - (word & MAGNITUDE)) >>> 31) << (word >>> 31);
    const whole = n - (n % 5);
    let to = at + 2;
    for (let i = 0; i < whole; i += 5) {
      out[to++] =
        digit(bits[i]!) +
        3 * digit(bits[i + 1]!) +
        9 * digit(bits[i + 2]!) +
        27 * digit(bits[i + 3]!) +
        81 * digit(bits[i + 4]!);
    }
    for (let i = n - 1; i >= whole; i--) out[to] = 3 * out[to]! + digit(bits[i]!);
  },

  flaw(bytes, at, n) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    const end = at + 2 + Math.ceil(n / 5);
    let largest = 0;
    for (let i = at + 2; i < end; i++) largest = Math.max(largest, bytes[i]!);
    if (largest >= BYTES) return 'bad-value';
    if (n % 5 !== 0 && bytes[end - 1]! >= 3 ** (n % 5)) return 'bad-padding';
    // refuse a level that no value uses: it could be anything
    return (level === 0) === (largest === 0) ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const term = levelOf(readLevelBits(bytes, at)) * weight;
    const whole = n - (n % 5);
    let read = at + 2;
    for (let i = from; i < from + whole; i += 5) {
      const digits = 5 * bytes[read++]!;
      target[i] = target[i]! + term * TRITS[digits]!;
      target[i + 1] = target[i + 1]! + term * TRITS[digits + 1]!;
      target[i + 2] = target[i + 2]! + term * TRITS[digits + 2]!;
      target[i + 3] = target[i + 3]! + term * TRITS[digits + 3]!;
      target[i + 4] = target[i + 4]! + term * TRITS[digits + 4]!;
    }
    for (let i = whole; i < n; i++) {
      target[from + i] = target[from + i]! + term * TRITS[5 * bytes[read]! + (i - whole)]!;
    }
  },
};

/** ±1 for each bit of each byte, lowest bit first. */
const SIGNS = Float64Array.from({ length: 256 * 8 }, (_, i) =>
  ((i >>> 3) >>> (i & 7)) & 1 ? -1 : 1,
);

export const sign: ValueCode = {
  bytes: (n) => 2 + Math.ceil(n / 8),

  write(values, n, out, at) {
    const level = levelBits(values.sum / n);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const { bits } = values;
    const whole = n & ~7;
    let to = at + 2;
    for (let i = 0; i < whole; i += 8) {
      out[to++] =
        (bits[i]! >>> 31) |
        ((bits[i + 1]! >>> 31) << 1) |
        ((bits[i + 2]! >>> 31) << 2) |
        ((bits[i + 3]! >>> 31) << 3) |
        ((bits[i + 4]! >>> 31) << 4) |
        ((bits[i + 5]! >>> 31) << 5) |
        ((bits[i + 6]! >>> 31) << 6) |
        ((bits[i + 7]! >>> 31) << 7);
    }
    for (let i = whole; i < n; i++) out[to] = out[to]! | ((bits[i]! >>> 31) << (i & 7));
  },

  flaw(bytes, at, n) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    const end = at + 2 + Math.ceil(n / 8);
    if (n % 8 !== 0 && bytes[end - 1]! >>> (n % 8) !== 0) return 'bad-padding';
    if (level !== 0) return undefined;
    for (let i = at + 2; i < end; i++) if (bytes[i] !== 0) return 'bad-value';
    return undefined;
  },

  add(bytes, at, n, weight, target, from) {
    const term = levelOf(readLevelBits(bytes, at)) * weight;
    const whole = from + (n & ~7);
    let read = at + 2;
    for (let i = from; i < whole; i += 8) {
      const signs = bytes[read++]! << 3;
      target[i] = target[i]! + term * SIGNS[signs]!;
      target[i + 1] = target[i + 1]! + term * SIGNS[signs | 1]!;
      target[i + 2] = target[i + 2]! + term * SIGNS[signs | 2]!;
      target[i + 3] = target[i + 3]! + term * SIGNS[signs | 3]!;
      target[i + 4] = target[i + 4]! + term * SIGNS[signs | 4]!;
      target[i + 5] = target[i + 5]! + term * SIGNS[signs | 5]!;
      target[i + 6] = target[i + 6]! + term * SIGNS[signs | 6]!;
      target[i + 7] = target[i + 7]! + term * SIGNS[signs | 7]!;
    }
    for (let i = whole; i < from + n; i++) {
      target[i] = target[i]! + term * SIGNS[(bytes[read]! << 3) | (i - whole)]!;
    }
  },
};
