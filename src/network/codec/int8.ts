/** The code `int8`: a level in bfloat16, then an integer of 8 bits for each value, which is that times the level. */
import {
  type ChunkCode,
  isLevel,
  levelBits,
  levelOf,
  nearest,
  readLevelBits,
  writeLevelBits,
} from './value-code.ts';

const LEVEL_BYTES = 2;
const MOST = 127;

const signed = (byte: number): number => (byte << 24) >> 24;

export const int8: ChunkCode = {
  bytes: (n) => LEVEL_BYTES + n,

  write(values, { at }, _scope, out) {
    let largest = 0;
    for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
    const level = levelBits(largest / MOST);
    if (level === 0) return;
    writeLevelBits(out, at, level);
    const perLevel = 1 / levelOf(level);
    for (let i = 0; i < values.length; i++) {
      out[at + LEVEL_BYTES + i] = nearest(values[i]! * perLevel);
    }
  },

  flaw(bytes, { at, n }) {
    const level = readLevelBits(bytes, at);
    if (!isLevel(level)) return 'bad-level';
    const codes = bytes.subarray(at + LEVEL_BYTES, at + LEVEL_BYTES + n);
    if (codes.indexOf(256 - MOST - 1) >= 0) return 'bad-value';
    if (level === 0) return codes.every((code) => code === 0) ? undefined : 'bad-level';
    // if no code is the largest, another level could encode the same values
    const usesMost = codes.indexOf(MOST) >= 0 || codes.indexOf(256 - MOST) >= 0;
    return usesMost ? undefined : 'bad-level';
  },

  add(bytes, { at, n }, _scope, weight, target, from) {
    const level = levelOf(readLevelBits(bytes, at));
    const read = at + LEVEL_BYTES;
    for (let i = 0; i < n; i++) {
      target[from + i] = target[from + i]! + level * signed(bytes[read + i]!) * weight;
    }
  },
};
