/**
 * Draws the committee that votes in a round: a weighted random sample of the eligible keys, seeded by the round's randomness
 * (sortition). A pure function of certified history, so every worker computes the same committee without a message.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import type { Committee } from '../../run/committee.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { cappedStakes, type QuorumRule, quorumOf } from './quorum.ts';
import { bestOf, createCandidates, DRAWS_PER_SEED, drawLots, type Weighted } from './weighted.ts';

/** The committee settings of a run spec. */
export interface CommitteeRules {
  /** Seats; fewer where fewer keys may sit. */
  readonly size: number;
  readonly quorum: QuorumRule;
  /** Whether more stake means a better chance of a seat, or only the right to have one. */
  readonly weights: 'stake' | 'equal';
  /** Keys with less stake get no seat; decimal. */
  readonly minStake: string;
}

/** Stake by key; null in a run without stake, where every key weighs 1. */
export type Stakes = ReadonlyMap<WorkerId, bigint> | null;

/** What seeds a draw. */
export interface Draw {
  readonly run: Digest;
  readonly round: number;
  /** The recovery epoch; 0 unless a round failed to finish. */
  readonly attempt: number;
  /** Randomness of the round (randomness.ts). */
  readonly entropy: Digest;
}

export interface CommitteeInput extends Draw {
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Keys that may have a seat, in any order; the draw itself drops those below `minStake`. */
  readonly eligible: readonly WorkerId[];
  readonly stakes: Stakes;
  readonly rules: CommitteeRules;
  /** Seats that a quorum has at least, whatever the rule says of a committee of this size. */
  readonly leastQuorum?: number;
}

/** The committee of one recovery epoch of a round; without eligible keys it has no members. */
export function drawCommittee(input: CommitteeInput): Committee {
  const { run, round, attempt, parent, rules, leastQuorum = 0 } = input;
  const drawn = rank(input, weigh(input), rules.size);
  const members = drawn.map(({ key }) => key);
  const quorum = Math.max(quorumOf(rules.quorum, members.length), leastQuorum);
  const weights = cappedStakes(
    drawn.map(({ weight }) => weight),
    quorum,
  );
  const fields = [bytes32(run), u32(round), u32(attempt), bytes32(parent), u32(members.length)];
  const ctx = toHex(taggedHash('nostrain/ctx/1', ...fields, ...members.map(bytes32)));
  return { round, attempt, members, weights, size: members.length, quorum, ctx };
}

/** All eligible keys in the order of the draw: the proposers of a recovery epoch. */
export const rankOf = (
  input: Omit<CommitteeInput, 'parent' | 'leastQuorum'>,
): readonly WorkerId[] => rank(input, weigh(input), input.eligible.length).map(({ key }) => key);

/**
 * What the rows of the roster weigh, as their keys do in the draw: capped in integers so that none outweighs the others, in shares of the
 * largest, rounded once. Keys without enough stake weigh nothing.
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

/** Eligible keys with enough stake, each with its weight in the draw. */
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

const rank = (draw: Draw, members: readonly Weighted[], count: number): readonly Weighted[] =>
  bestOf(drawLots(createCandidates(members), drawSeed(draw)), draw.attempt % DRAWS_PER_SEED, count);

/** Seed of a draw. Eight recovery epochs share one seed and use one of its eight draws each. */
const drawSeed = ({ run, round, attempt, entropy }: Draw): Uint8Array =>
  taggedHash(
    'nostrain/committee/1',
    bytes32(run),
    u32(round),
    u32(Math.floor(attempt / DRAWS_PER_SEED)),
    bytes32(entropy),
  );
