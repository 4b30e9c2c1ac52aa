/**
 * Draws the committees of a round by sortition: one weighted sample of the eligible keys per recovery epoch, seeded by
 * the round's randomness. Pure functions of certified history.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/hash.ts';
import type { Committee } from '../../run/committee.ts';
import { keyNames, type SeatNames } from '../../run/founder-seats.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { bestOf, createCandidates, DRAWS_PER_SEED, drawLots, type Weighted } from './draw.ts';
import { cappedStakes, hasQuorum, type QuorumRule, quorumOf } from './quorum.ts';

/** The committee settings of a run spec. */
export interface CommitteeRules {
  /** Number of seats; fewer if fewer keys are eligible. */
  readonly size: number;
  readonly quorum: QuorumRule;
  /** Whether more stake means a better chance of a seat, or only the right to have one. */
  readonly weights: 'stake' | 'equal';
  /** Smallest stake that may have a seat, as a decimal string. */
  readonly minStake: string;
}

/** Stake by key; null in a run without stake, in which every key weighs 1. */
export type Stakes = ReadonlyMap<WorkerId, bigint> | null;

/** What identifies the draw of a committee. */
export interface Draw {
  readonly run: Digest;
  readonly round: number;
  /** The recovery epoch; 0 unless a round failed to finish. */
  readonly attempt: number;
  /** Randomness of the round (randomness.ts). */
  readonly entropy: Digest;
  /** Names of keys in the draw; default the keys. */
  readonly names?: SeatNames;
}

export interface CommitteeInput extends Draw {
  /** Digest of the previous outcome; the run id in round 0. */
  readonly parent: Digest;
  /** Keys that may have a seat, in any order; the draw itself drops those below `minStake`. */
  readonly eligible: readonly WorkerId[];
  readonly stakes: Stakes;
  readonly rules: CommitteeRules;
  /** Smallest quorum, even if the rule requires fewer votes for a committee of this size. */
  readonly leastQuorum?: number;
}

/** Draws the committee of one recovery epoch of a round; without eligible keys it has no members. */
export function drawCommittee(input: CommitteeInput): Committee {
  const { run, round, attempt, parent, rules, leastQuorum = 0, names = keyNames } = input;
  const drawn = rank(input, weigh(input), rules.size);
  const members = drawn.map(({ key }) => key);
  const quorum = Math.max(quorumOf(rules.quorum, members.length), leastQuorum);
  const weights = cappedStakes(
    drawn.map(({ weight }) => weight),
    quorum,
  );
  const fields = [bytes32(run), u32(round), u32(attempt), bytes32(parent), u32(members.length)];
  const seats = members.map((key) => bytes32(names.nameOf(key)));
  const ctx = toHex(taggedHash('nostrain/ctx/1', ...fields, ...seats));
  return { round, attempt, members, weights, size: members.length, quorum, ctx };
}

/** Returns all eligible keys in the order of the draw: the proposers of a recovery epoch. */
export const rankOf = (
  input: Omit<CommitteeInput, 'parent' | 'leastQuorum'>,
): readonly WorkerId[] => rank(input, weigh(input), input.eligible.length).map(({ key }) => key);

/**
 * Returns the weight of each worker's contribution in a run with stakes: its capped stake as a share of the largest,
 * rounded once. Keys with too little stake are missing from the map.
 */
export function rosterWeights(
  roster: readonly WorkerId[],
  stakes: Stakes,
  rules: CommitteeRules,
): ReadonlyMap<WorkerId, number> {
  const weighed = weigh({ eligible: roster, stakes, rules });
  const capped = cappedStakes(
    weighed.map(({ weight }) => weight),
    quorumOf(rules.quorum, weighed.length),
  );
  let largest = 1n;
  for (const each of capped) if (each > largest) largest = each;
  return new Map(
    weighed.map(({ key }, i) => [key, Number((capped[i]! << 52n) / largest) / 2 ** 52]),
  );
}

/** Returns the eligible keys with enough stake, each with its weight in the draw. */
export function weigh({
  eligible,
  stakes,
  rules,
}: Pick<CommitteeInput, 'eligible' | 'stakes' | 'rules'>): readonly Weighted[] {
  if (stakes === null) return eligible.map((key) => ({ key, weight: 1n }));
  const least = BigInt(rules.minStake);
  return eligible.flatMap((key) => {
    const stake = stakes.get(key) ?? 0n;
    if (stake < 1n || stake < least) return [];
    return [{ key, weight: rules.weights === 'stake' ? stake : 1n }];
  });
}

function rank(draw: Draw, members: readonly Weighted[], count: number): readonly Weighted[] {
  const { nameOf, keyOf } = draw.names ?? keyNames;
  // a draw may have a million keys
  const isSame = nameOf === keyNames.nameOf;
  const named = isSame ? members : members.map((each) => ({ ...each, key: nameOf(each.key) }));
  const lots = drawLots(createCandidates(named), drawSeed(draw));
  const best = bestOf(lots, draw.attempt % DRAWS_PER_SEED, count);
  return isSame ? best : best.map((each) => ({ ...each, key: keyOf(each.key) }));
}

/** Returns the seed of a draw. Eight recovery epochs share one seed and use one of its eight draws each. */
const drawSeed = ({ run, round, attempt, entropy }: Draw): Uint8Array =>
  taggedHash(
    'nostrain/committee/1',
    bytes32(run),
    u32(round),
    u32(Math.floor(attempt / DRAWS_PER_SEED)),
    bytes32(entropy),
  );

export interface ElectionRules {
  /** Keys that may have a seat, with their weights in a draw. */
  readonly weighed: readonly Weighted[];
  /** K: seats of a committee, if there are enough keys. */
  readonly size: number;
  /** Share of the keys, and of their weight, whose view-change votes start a recovery, in permille. */
  readonly floorPermille: number;
  /** Returns all of these keys by rank in this epoch. */
  rank(attempt: number, keys: readonly WorkerId[]): readonly WorkerId[];
  /** Returns the committee drawn from these keys; its quorum has at least `leastQuorum` seats. */
  drawFrom(attempt: number, keys: readonly WorkerId[], leastQuorum: number): Committee;
}

/** Who may have a seat in a round, and the committee of each attempt. */
export interface Election {
  /** Keys that may have a seat, in the order given. Only their view-change votes count. */
  readonly eligible: readonly WorkerId[];
  /** Whether there are more eligible keys than seats. */
  readonly isSampled: boolean;
  /** The committee of recovery epoch 0. */
  readonly committee: Committee;
  /** Returns the proposers of a recovery epoch: its committee if seats are sampled, else all eligible keys by rank. */
  proposers(attempt: number): readonly WorkerId[];
  /**
   * Returns the committee of a recovery epoch. With sampled seats it depends on the round's randomness and the epoch
   * alone; otherwise it consists of these keys, and its quorum is also more than half of all eligible keys.
   */
  draw(attempt: number, keys: readonly WorkerId[]): Committee;
  /** Reports whether view-change votes of these keys are enough for a recovery; repeated keys count once. */
  isFloor(keys: readonly WorkerId[]): boolean;
  /**
   * Reports whether these keys include a member of every quorum of every earlier epoch, whose view-change vote reports
   * what was prepared there.
   */
  covers(attempt: number, keys: readonly WorkerId[]): boolean;
}

/**
 * Recovery floor, in permille, up to which separated parts of a run may continue on their own. The spec chose that, so
 * the guarantees across epochs are off.
 */
const HALF = 500;

/** Returns the election of a round: who may have a seat, and the committee of each attempt. */
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

/** Returns the test for the recovery floor: at least one key, and the required share of eligible keys and weight. */
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
