/** Value codes int8 and int4: a level times an integer of 8 or 4 bits per value. */
import {
  type ChunkValues,
  isLevel,
  largestMagnitude,
  levelBits,
  levelOf,
  nearest,
  readLevelBits,
  type ValueCode,
  writeLevelBits,
} from './value-code.ts';

const MOST_INT8 = 127;

const signed = (byte: number): number => (byte << 24) >> 24;
export const int8: ValueCode = {
  bytes: (n) => 2 + n,

  write(values, n, out, at) {
    const level = levelBits(largestMagnitude(values, n) / MOST_INT8);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const { floats } = values;
    const perLevel = 1 / levelOf(level);
    const whole = n & ~3;
    let to = at + 2;
    for (let i = 0; i < whole; i += 4) {
      const a = nearest(floats[i]! * perLevel);
      const b = nearest(floats[i + 1]! * perLevel);
      const c = nearest(floats[i + 2]! * perLevel);
      const d = nearest(floats[i + 3]! * perLevel);
      out[to] = a;
      out[to + 1] = b;
      out[to + 2] = c;
      out[to + 3] = d;
      to += 4;
    }
    for (let i = whole; i < n; i++) out[to++] = nearest(floats[i]! * perLevel);
  },

  flaw(bytes, at, n) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    const codes = bytes.subarray(at + 2, at + 2 + n);
    if (codes.indexOf(256 - MOST_INT8 - 1) >= 0) return 'bad-value';
    if (level === 0) return codes.every((code) => code === 0) ? undefined : 'bad-level';
    // if no code is the largest, another level could encode the same values
    const usesMost = codes.indexOf(MOST_INT8) >= 0 || codes.indexOf(256 - MOST_INT8) >= 0;
    return usesMost ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    const whole = from + (n & ~3);
    let read = at + 2;
    let i = from;
    for (; i < whole; i += 4) {
      target[i] = target[i]! + level * signed(bytes[read]!) * weight;
      target[i + 1] = target[i + 1]! + level * signed(bytes[read + 1]!) * weight;
      target[i + 2] = target[i + 2]! + level * signed(bytes[read + 2]!) * weight;
      target[i + 3] = target[i + 3]! + level * signed(bytes[read + 3]!) * weight;
      read += 4;
    }
    for (; i < from + n; i++) target[i] = target[i]! + level * signed(bytes[read++]!) * weight;
  },
};

const MOST_INT4 = 7;
/** Level as a share of the root mean square; larger values are clipped. */
const SHARE = 0.4;

/** Bound of value / level: a value is at most 64 root mean squares of a chunk of 4096, and 64 / 0.4 is below 256. */
const REACH = 256;
/** Clipped 4-bit code of each integer from -REACH on. */
const CLIPPED = Uint8Array.from(
  { length: 2 * REACH },
  (_, i) => Math.max(-MOST_INT4, Math.min(MOST_INT4, i - REACH)) & 15,
);
/** Reads the lower four bits as two's complement. */
const signed4 = (code: number): number => (code << 28) >> 28;
/** Flags of a byte: one of its two codes is -8, is -7 or 7, or is not 0. */
const [BEYOND, EXTREME, OTHER] = [4, 2, 1];
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const kindOf = (code: number) => {
    const size = Math.abs(signed4(code));
    return (
      (size > MOST_INT4 ? BEYOND : 0) | (size === MOST_INT4 ? EXTREME : 0) | (size > 0 ? OTHER : 0)
    );
  };
  return kindOf(byte) | kindOf(byte >>> 4);
});

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
  return levelBits(
    Math.min(largestMagnitude(values, n) / MOST_INT4, SHARE * Math.sqrt(squares / n)),
  );
}

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
    let kinds = 0;
    let i = at + 2;
    for (; i < end - 3; i += 4) {
      kinds |=
        KINDS[bytes[i]!]! | KINDS[bytes[i + 1]!]! | KINDS[bytes[i + 2]!]! | KINDS[bytes[i + 3]!]!;
    }
    for (; i < end; i++) kinds |= KINDS[bytes[i]!]!;
    if (n % 2 === 1 && bytes[end - 1]! > 15) return 'bad-padding';
    if ((kinds & BEYOND) !== 0) return 'bad-value';
    // if no code is the largest, another level could encode the same values
    const isOne = level === 0 ? kinds === 0 : (kinds & EXTREME) !== 0;
    return isOne ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    const whole = from + (n & ~3);
    let read = at + 2;
    let i = from;
    for (; i < whole; i += 4) {
      const first = bytes[read]!;
      const second = bytes[read + 1]!;
      target[i] = target[i]! + level * signed4(first) * weight;
      target[i + 1] = target[i + 1]! + level * signed4(first >>> 4) * weight;
      target[i + 2] = target[i + 2]! + level * signed4(second) * weight;
      target[i + 3] = target[i + 3]! + level * signed4(second >>> 4) * weight;
      read += 2;
    }
    for (; i < from + n; i++) {
      const code = signed4(bytes[read + ((i - whole) >>> 1)]! >>> (4 * ((i - whole) & 1)));
      target[i] = target[i]! + level * code * weight;
    }
  },
};
