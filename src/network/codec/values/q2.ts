/**
 * Two bits per value: ±a or ±b, a at most b, from the mean magnitude by three steps of Lloyd's rule, the first two on a sample.
 * The lower bit is the sign, the upper one says b.
 */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import {
  type ChunkValues,
  MAGNITUDE,
  SAMPLE,
  singleBits,
  sumAbove,
  sumAboveSampled,
  type ValueCode,
} from './value-code.ts';

/** Sampled steps before the last one. */
const SAMPLED = 2;
/** The sign bits of the four codes of a byte. */
const SIGNS = 0x55;

/** Bits of both levels, the lower one first. */
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
    // each sign moved down to its place, and beside it the sign of a subtraction: 1 above the split
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
  // no minus zero
  const end = at + q2.bytes(n);
  for (let i = at + 4; i < end; i++) out[i] = out[i]! & (~SIGNS | (out[i]! >>> 1));
}

export const q2: ValueCode = {
  bytes: (n) => 4 + Math.ceil(n / 4),

  write(values, n, out, at) {
    const [low, high] = levelsFor(values, n);
    writeCodes(values, n, low, high, out, at);
    if (q2.flaw(out, at, n) === undefined) return;
    // all values took the same level: it is written twice, and every value takes the lower one
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
    if (low === 0 && (negativeLow & SIGNS) !== 0) return 'bad-value';
    // a level that no value takes would be free to be anything
    const usesBoth = (anyHigh & SIGNS) !== 0 && (anyLow & SIGNS) !== 0;
    const usesLow = (anyHigh & SIGNS) === 0;
    return (low < high ? usesBoth : usesLow) ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const low = levelOf(readLevelBits(bytes, at)) * weight;
    const high = levelOf(readLevelBits(bytes, at + 2)) * weight;
    const terms = Float64Array.of(low, -low, high, -high);
    const whole = n & ~3;
    let read = at + 4;
    for (let i = from; i < from + whole; i += 4) {
      const four = bytes[read++]!;
      target[i] = target[i]! + terms[four & 3]!;
      target[i + 1] = target[i + 1]! + terms[(four >>> 2) & 3]!;
      target[i + 2] = target[i + 2]! + terms[(four >>> 4) & 3]!;
      target[i + 3] = target[i + 3]! + terms[four >>> 6]!;
    }
    for (let i = whole; i < n; i++) {
      target[from + i] = target[from + i]! + terms[(bytes[read]! >>> (2 * (i & 3))) & 3]!;
    }
  },
};
