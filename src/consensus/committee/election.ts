/**
 * Who votes in each recovery epoch of a round, given who may sit: the rule that a certified round, its replay and the model checker
 * share. How keys are ranked is left to the caller.
 */
import type { Committee } from '../../run/committee.ts';
import type { WorkerId } from '../../run/ids.ts';
import { hasQuorum } from './quorum.ts';
import type { Weighted } from './weighted.ts';

export interface ElectionRules {
  /** Keys that may have a seat, with their weights in a draw. */
  readonly weighed: readonly Weighted[];
  /** K: seats of a committee, if there are so many keys. */
  readonly size: number;
  /** Share of the keys, and of their weight, whose view-change votes begin a recovery. */
  readonly floorPermille: number;
  /** All of these keys by rank in this epoch. */
  rank(attempt: number, keys: readonly WorkerId[]): readonly WorkerId[];
  /** The committee drawn from these keys; its quorum has at least so many seats. */
  drawFrom(attempt: number, keys: readonly WorkerId[], leastQuorum: number): Committee;
}

export interface Election {
  /** Keys that may have a seat, in the order given. */
  readonly eligible: readonly WorkerId[];
  /** Whether there are more of them than seats. */
  readonly isSampled: boolean;
  /** The committee of recovery epoch 0. */
  readonly committee: Committee;
  /** Proposers of a recovery epoch (`attempt`): its committee where seats are sampled, else all eligible keys by rank. */
  proposers(attempt: number): readonly WorkerId[];
  /**
   * The committee of a recovery epoch. Where seats are sampled, the round's randomness and the epoch alone draw it; where
   * everybody sits, it is those of these keys that may sit, and a quorum of it is also more than half of all that may.
   */
  draw(attempt: number, keys: readonly WorkerId[]): Committee;
  /** Whether view-change votes of these keys are enough for a recovery. */
  isFloor(keys: readonly WorkerId[]): boolean;
  /**
   * Whether no quorum of an earlier epoch can have been made without any of these keys. Then somebody of it is among them, and
   * an honest one says in its view-change vote what was prepared.
   */
  covers(attempt: number, keys: readonly WorkerId[]): boolean;
}

/** A recovery floor of this or less lets parts of a run go on alone, as its spec asks for: then nothing below holds. */
const HALF = 500;

export function createElection(rules: ElectionRules): Election {
  const { weighed, size, floorPermille, rank, drawFrom } = rules;
  const eligible = weighed.map(({ key }) => key);
  const isSampled = size < eligible.length;
  const isSafe = floorPermille > HALF;
  const leastQuorum = isSafe && !isSampled ? Math.floor(eligible.length / 2) + 1 : 0;
  const drawn = new Map<number, Committee>();
  const drawFromAll = (attempt: number): Committee => {
    const committee = drawn.get(attempt) ?? drawFrom(attempt, eligible, 0);
    drawn.set(attempt, committee);
    return committee;
  };
  const draw = (attempt: number, keys: readonly WorkerId[]): Committee => {
    if (attempt === 0 || isSampled) return drawFromAll(attempt);
    const counted = new Set(keys);
    const those = eligible.filter((key) => counted.has(key));
    return drawFrom(attempt, those, leastQuorum);
  };
  const covers = (attempt: number, keys: readonly WorkerId[]): boolean => {
    if (!isSampled || !isSafe) return true;
    const counted = new Set(keys);
    for (let epoch = 0; epoch < attempt; epoch++) {
      const committee = drawFromAll(epoch);
      const others = committee.members.filter((key) => !counted.has(key));
      if (hasQuorum(committee, others)) return false;
    }
    return true;
  };
  return {
    eligible,
    isSampled,
    draw,
    covers,
    committee: drawFromAll(0),
    proposers: (attempt) => (isSampled ? drawFromAll(attempt).members : rank(attempt, eligible)),
    isFloor: floorOf(weighed, floorPermille),
  };
}

/** At least one key, and the share that the run asks for of the keys that may sit and of their weight. */
function floorOf(
  weighed: readonly Weighted[],
  floorPermille: number,
): (keys: readonly WorkerId[]) => boolean {
  const weights = new Map(weighed.map(({ key, weight }) => [key, weight]));
  const sum = (keys: readonly WorkerId[]): bigint =>
    keys.reduce((total, key) => total + weights.get(key)!, 0n);
  const least = BigInt(floorPermille) * sum([...weights.keys()]);
  return (keys) => {
    const counted = [...new Set(keys)].filter((key) => weights.has(key));
    const isMost = counted.length * 1000 >= floorPermille * weights.size;
    return counted.length > 0 && isMost && sum(counted) * 1000n >= least;
  };
}
