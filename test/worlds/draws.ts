/** Named random streams of a seed: what one part of a world draws changes nothing in what another part draws. */
import { deriveKey, philox, unit } from 'nostrain/base';

export interface Draws {
  /** Returns a number in (0, 1). */
  unit(): number;
  between(least: number, most: number): number;
  /** Returns a whole number; both ends are possible. */
  whole(least: number, most: number): number;
  pick<T>(list: readonly T[]): T;
  chance(share: number): boolean;
}

export function drawsOf(seed: number, ...name: readonly (string | number)[]): Draws {
  const key = deriveKey('world', seed, ...name);
  let count = 0;
  const word = () => philox(key, count++, 0, 0, 0)[0];
  const draws: Draws = {
    unit: () => unit(word()),
    between: (least, most) => least + (most - least) * unit(word()),
    whole: (least, most) => least + Math.floor(unit(word()) * (most - least + 1)),
    pick: (list) => list[Math.floor(unit(word()) * list.length)]!,
    chance: (share) => unit(word()) < share,
  };
  return draws;
}
