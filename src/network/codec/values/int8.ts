/** Eight bits per value: integers from -127 to 127 times a level, which is the largest magnitude over 127. */
import { isLevel, levelBits, levelOf, readLevelBits, writeLevelBits } from '../bfloat16.ts';
import { largestBits, ROUNDER, singleOf, type ValueCode } from './value-code.ts';

const MOST = 127;

export const int8: ValueCode = {
  bytes: (n) => 2 + n,

  write(values, n, out, at) {
    const level = levelBits(singleOf(largestBits(values, n)) / MOST);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const perLevel = 1 / levelOf(level);
    const { floats } = values;
    for (let i = 0; i < n; i++) out[at + 2 + i] = floats[i]! * perLevel + ROUNDER - ROUNDER;
  },

  flaw(bytes, at, n) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    let largest = 0;
    for (let i = at + 2; i < at + 2 + n; i++) {
      const word = (bytes[i]! << 24) >> 24;
      const flip = word >> 31;
      largest = Math.max(largest, (word ^ flip) - flip);
    }
    if (largest > MOST) return 'bad-value';
    // were the largest code smaller, the same values could be said with another level
    return largest === (level === 0 ? 0 : MOST) ? undefined : 'bad-level';
  },

  add(bytes, at, n, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    for (let i = 0; i < n; i++) {
      const code = (bytes[at + 2 + i]! << 24) >> 24;
      target[from + i] = target[from + i]! + level * code * weight;
    }
  },
};
