/** How long it takes one core to find the witnesses among N members, and what it holds meanwhile. */

import { toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import { u32 } from '../../base/tagged-hash.ts';
import {
  bestOf,
  createPool,
  drawLots,
  TURNS,
  type Weighted,
} from '../../consensus/committee/weighted.ts';

export interface DrawTimes {
  /** From members as text to the seats. */
  readonly coldMs: number;
  /** With members read: a round nobody has drawn for yet. */
  readonly roundMs: number;
  /** With the round's lots there: one more of its eight draws. */
  readonly cachedMs: number;
  /** The most this process held above what it had held before, its garbage included. */
  readonly memoryBytes: number;
}

const REPEATS = 5;

/** Medians of a few repeats, the first one thrown away. */
export function timeDraws(keys: number, seats: number): DrawTimes {
  const before = process.memoryUsage().rss;
  const members = makeMembers(keys);
  const times = Array.from({ length: REPEATS + 1 }, (_, i) => timeOnce(members, seats, i)).slice(1);
  const median = (pick: (time: (typeof times)[number]) => number) =>
    times.map(pick).toSorted((a, b) => a - b)[Math.floor(REPEATS / 2)]!;
  return {
    coldMs: median(({ cold }) => cold),
    roundMs: median(({ round }) => round),
    cachedMs: median(({ cached }) => cached),
    memoryBytes: Math.max(0, 1024 * process.resourceUsage().maxRSS - before),
  };
}

function timeOnce(members: readonly Weighted[], seats: number, seed: number) {
  const start = performance.now();
  const pool = createPool(members);
  const read = performance.now();
  const lots = drawLots(pool, sha256(u32(seed)));
  bestOf(lots, 0, seats);
  const drawn = performance.now();
  for (let turn = 1; turn < TURNS; turn++) bestOf(lots, turn, seats);
  const end = performance.now();
  return { cold: drawn - start, round: drawn - read, cached: (end - drawn) / (TURNS - 1) };
}

/** Keys that are no keys, with stakes over three orders of magnitude. */
const makeMembers = (count: number): readonly Weighted[] =>
  Array.from({ length: count }, (_, i) => ({
    key: toHex(sha256(u32(i))),
    weight: BigInt(1 + ((i * 7919) % 1000)) * 10n ** 18n,
  }));
