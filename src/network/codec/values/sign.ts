/** One bit per value: ±a with a the mean magnitude, which is the best single level. */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import type { ValueCode } from './value-code.ts';

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
