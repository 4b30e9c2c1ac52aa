/**
 * Three levels, -a, 0 and a, five values to a byte in base 3 (1.6 bits per value, where two bits each would be 2). The level
 * comes from a threshold of 0.8 of the mean magnitude by two steps of Lloyd's rule, the first on a sample; more steps gain
 * under 0.001 of the energy.
 */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import {
  type ChunkValues,
  MAGNITUDE,
  singleBits,
  sumAbove,
  sumAboveSampled,
  type ValueCode,
} from './value-code.ts';

/** Bytes from this one on are not five base-3 digits. */
const BYTES = 243;
/** What each digit of each byte says, lowest digit first: 0, 1 and -1 for digits 0, 1 and 2. */
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
    // 0 at or below half the level, else 1 for a positive value and 2 for a negative one
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
    // a level that no value takes would be free to be anything
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
