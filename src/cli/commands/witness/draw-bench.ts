/** What it takes one core to find the witnesses among N members, and what it holds meanwhile. */
import { sha256, u32 } from '../../../base/hash.ts';
import {
  bestOf,
  createCandidates,
  DRAWS_PER_SEED,
  drawLots,
  type Weighted,
} from '../../../consensus/committee/draw.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';

/** Milliseconds of processor time; other programs on the machine do not count. */
export interface DrawCosts {
  /** From members as text to the seats. */
  readonly coldMs: number;
  /** With members read: a round nobody has drawn for yet. */
  readonly roundMs: number;
  /** With the round's lots there: one more of its eight draws. */
  readonly cachedMs: number;
  /** The most this process held above what it held before there were members, its garbage included. */
  readonly memoryBytes: number;
}

const REPEATS = 5;

/** Costs of one draw; the times are medians of a few more. */
export function costOfDraws(keys: number, seats: number): DrawCosts {
  const before = process.memoryUsage().rss;
  const members = makeMembers(keys);
  timeOnce(members, seats, 0);
  const memoryBytes = Math.max(0, 1024 * process.resourceUsage().maxRSS - before);
  const times = Array.from({ length: REPEATS }, (_, i) => timeOnce(members, seats, 1 + i));
  const median = (pick: (time: (typeof times)[number]) => number) =>
    times.map(pick).toSorted((a, b) => a - b)[Math.floor(REPEATS / 2)]!;
  return {
    coldMs: median(({ cold }) => cold),
    roundMs: median(({ round }) => round),
    cachedMs: median(({ cached }) => cached),
    memoryBytes,
  };
}

function timeOnce(members: readonly Weighted[], seats: number, seed: number) {
  const start = processorMs();
  const pool = createCandidates(members);
  const read = processorMs();
  const lots = drawLots(pool, sha256(u32(seed)));
  bestOf(lots, 0, seats);
  const drawn = processorMs();
  for (let turn = 1; turn < DRAWS_PER_SEED; turn++) bestOf(lots, turn, seats);
  const end = processorMs();
  return { cold: drawn - start, round: drawn - read, cached: (end - drawn) / (DRAWS_PER_SEED - 1) };
}

/** Keys that are no keys, with stakes over three orders of magnitude. */
const makeMembers = (count: number): readonly Weighted[] =>
  Array.from({ length: count }, (_, i) => ({
    key: Buffer.from(nativeSha256(u32(i))).toString('hex'),
    weight: BigInt(1 + ((i * 7919) % 1000)) * 10n ** 18n,
  }));

export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
