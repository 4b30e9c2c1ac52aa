/** Eight bits per value: integers from -127 to 127 times a level, which is the largest magnitude over 127. */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import { largestMagnitude, nearest, type ValueCode } from './value-code.ts';

const MOST = 127;
/** What can be said of a byte: that it is -127 or 127, that it is -128, that it is neither nor 0. */
const [EXTREME, BEYOND, OTHER] = [1, 2, 4];
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === 128) return BEYOND;
  if (byte === 0) return 0;
  return byte === MOST || byte === 256 - MOST ? EXTREME : OTHER;
});

/** Weight × value for each byte of the chunk at hand. */
const terms = new Float64Array(256);

export const int8: ValueCode = {
  bytes: (n) => 2 + n,

  write(values, n, out, at) {
    const level = levelBits(largestMagnitude(values, n) / MOST);
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
    const end = at + 2 + n;
    let kinds = 0;
    let i = at + 2;
    for (; i < end - 3; i += 4) {
      kinds |=
        KINDS[bytes[i]!]! | KINDS[bytes[i + 1]!]! | KINDS[bytes[i + 2]!]! | KINDS[bytes[i + 3]!]!;
    }
    for (; i < end; i++) kinds |= KINDS[bytes[i]!]!;
    if ((kinds & BEYOND) !== 0) return 'bad-value';
    // without a largest code, the same values could be said with another level
    const isOne = level === 0 ? kinds === 0 : (kinds & EXTREME) !== 0;
    return isOne ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    for (let i = 0; i < 256; i++) terms[i] = level * ((i << 24) >> 24) * weight;
    const whole = from + (n & ~3);
    let read = at + 2;
    let i = from;
    for (; i < whole; i += 4) {
      target[i] = target[i]! + terms[bytes[read]!]!;
      target[i + 1] = target[i + 1]! + terms[bytes[read + 1]!]!;
      target[i + 2] = target[i + 2]! + terms[bytes[read + 2]!]!;
      target[i + 3] = target[i + 3]! + terms[bytes[read + 3]!]!;
      read += 4;
    }
    for (; i < from + n; i++) target[i] = target[i]! + terms[bytes[read++]!]!;
  },
};
