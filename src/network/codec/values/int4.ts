/**
 * Four bits per value: integers from -7 to 7 times a level. The level is 0.4 of the root mean square, or the largest
 * magnitude over 7 where that is less: on deltas of training, clipping the few largest halves the error.
 */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import { type ChunkValues, largestMagnitude, nearest, type ValueCode } from './value-code.ts';

const MOST = 7;
/** Level per root mean square. */
const SHARE = 0.4;

/** No value of a chunk of 4096 is more than 64 / 0.4 levels. */
const REACH = 256;
/** The code of an integer from -REACH on. */
const CLIPPED = Uint8Array.from(
  { length: 2 * REACH },
  (_, i) => Math.max(-MOST, Math.min(MOST, i - REACH)) & 15,
);
/** -8 to 7 for each of the two codes of each byte, the lower four bits first. */
const CODES = Int8Array.from({ length: 512 }, (_, i) => ((i >>> 1) << (i & 1 ? 24 : 28)) >> 28);
/** The larger magnitude of a byte's two codes. */
const LARGER = Uint8Array.from({ length: 256 }, (_, i) =>
  Math.max(Math.abs(CODES[2 * i]!), Math.abs(CODES[2 * i + 1]!)),
);

function levelFor(values: ChunkValues, n: number): number {
  const { floats } = values;
  let squares = 0;
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    squares += floats[i]! * floats[i]!;
    squares += floats[i + 1]! * floats[i + 1]!;
    squares += floats[i + 2]! * floats[i + 2]!;
    squares += floats[i + 3]! * floats[i + 3]!;
  }
  for (let i = whole; i < n; i++) squares += floats[i]! * floats[i]!;
  return levelBits(Math.min(largestMagnitude(values, n) / MOST, SHARE * Math.sqrt(squares / n)));
}

/** Weight × value for each code of the chunk at hand. */
const terms = new Float64Array(16);

export const int4: ValueCode = {
  bytes: (n) => 2 + Math.ceil(n / 2),

  write(values, n, out, at) {
    const level = levelFor(values, n);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const perLevel = 1 / levelOf(level);
    const { floats } = values;
    const whole = n & ~3;
    let to = at + 2;
    for (let i = 0; i < whole; i += 4) {
      const a = CLIPPED[nearest(floats[i]! * perLevel) + REACH]!;
      const b = CLIPPED[nearest(floats[i + 1]! * perLevel) + REACH]!;
      const c = CLIPPED[nearest(floats[i + 2]! * perLevel) + REACH]!;
      const d = CLIPPED[nearest(floats[i + 3]! * perLevel) + REACH]!;
      out[to] = a | (b << 4);
      out[to + 1] = c | (d << 4);
      to += 2;
    }
    for (let i = whole; i < n; i++) {
      const code = CLIPPED[nearest(floats[i]! * perLevel) + REACH]!;
      const byte = to + ((i - whole) >>> 1);
      out[byte] = out[byte]! | (code << (4 * (i & 1)));
    }
  },

  flaw(bytes, at, n) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    const end = at + 2 + Math.ceil(n / 2);
    let largest = 0;
    for (let i = at + 2; i < end; i++) largest = Math.max(largest, LARGER[bytes[i]!]!);
    if (n % 2 === 1 && bytes[end - 1]! > 15) return 'bad-padding';
    if (largest > MOST) return 'bad-value';
    // were the largest code smaller, the same values could be said with another level
    return largest === (level === 0 ? 0 : MOST) ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    for (let i = 0; i < 16; i++) terms[i] = level * ((i << 28) >> 28) * weight;
    const whole = n & ~1;
    let read = at + 2;
    for (let i = from; i < from + whole; i += 2) {
      const pair = bytes[read++]!;
      target[i] = target[i]! + terms[pair & 15]!;
      target[i + 1] = target[i + 1]! + terms[pair >>> 4]!;
    }
    if (whole < n) target[from + whole] = target[from + whole]! + terms[bytes[read]! & 15]!;
  },
};
