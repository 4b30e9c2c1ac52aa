/** Eight bits per value: integers from -127 to 127 times a level, which is the largest magnitude over 127. */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import { largestMagnitude, nearest, type ValueCode } from './value-code.ts';

const MOST = 127;

/** A byte in two's complement. */
const signed = (byte: number): number => (byte << 24) >> 24;
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
    const codes = bytes.subarray(at + 2, at + 2 + n);
    if (codes.indexOf(256 - MOST - 1) >= 0) return 'bad-value';
    if (level === 0) return codes.every((code) => code === 0) ? undefined : 'bad-level';
    // without a largest code, the same values could be said with another level
    const usesMost = codes.indexOf(MOST) >= 0 || codes.indexOf(256 - MOST) >= 0;
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
