/**
 * Who votes in a round: a weighted draw among the keys that may sit, by the entropy of the round. A pure function of certified
 * history, so everybody gets the same committee and no message is needed to form one.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import type { Committee } from '../../run/committee.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { cappedStakes, type QuorumRule, quorumOf } from './quorum.ts';
import { bestOf, createCandidates, DRAWS_PER_SEED, drawLots, type Weighted } from './weighted.ts';

/** The part of a run spec that says what committees are like. */
export interface CommitteeRules {
  /** Seats; fewer where fewer keys may sit. */
  readonly size: number;
  readonly quorum: QuorumRule;
  /** Whether more stake means a better chance of a seat, or only the right to have one. */
  readonly weights: 'stake' | 'equal';
  /** Who has less never sits, in decimal. */
  readonly minStake: string;
}

/** By key; null where the run has no stake and every key weighs 1. */
export type Stakes = ReadonlyMap<WorkerId, bigint> | null;

/** What decides a draw. */
export interface Draw {
  readonly run: Digest;
  readonly round: number;
  /** 0, or the number of the recovery attempt. */
  readonly attempt: number;
  /** Of the round. */
  readonly entropy: Digest;
}

export interface CommitteeInput extends Draw {
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Keys that may sit, in any order; those without enough stake are left out here. */
  readonly eligible: readonly WorkerId[];
  readonly stakes: Stakes;
  readonly rules: CommitteeRules;
}

/** The committee of one attempt at a round; it has no members where nobody may sit. */
export function drawCommittee(input: CommitteeInput): Committee {
  const { run, round, attempt, parent, rules } = input;
  const drawn = rank(input, weigh(input), rules.size);
  const members = drawn.map(({ key }) => key);
  const quorum = quorumOf(rules.quorum, members.length);
  const weights = cappedStakes(
    drawn.map(({ weight }) => weight),
    quorum,
  );
  const fields = [bytes32(run), u32(round), u32(attempt), bytes32(parent), u32(members.length)];
  const ctx = toHex(taggedHash('nostrain/ctx/1', ...fields, ...members.map(bytes32)));
  return { round, attempt, members, weights, size: members.length, quorum, ctx };
}

/** All keys that may sit, in the order of the draw: who proposes when in a recovery attempt. */
export const rankOf = (input: Omit<CommitteeInput, 'parent'>): readonly WorkerId[] =>
  rank(input, weigh(input), input.eligible.length).map(({ key }) => key);

/** Keys with their weight in the draw, those without enough stake left out. */
function weigh({ eligible, stakes, rules }: Omit<CommitteeInput, 'parent'>): readonly Weighted[] {
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

/** What the lots of a draw are made with; eight attempts share one seed and take a turn each. */
const drawSeed = ({ run, round, attempt, entropy }: Draw): Uint8Array =>
  taggedHash(
    'nostrain/committee/1',
    bytes32(run),
    u32(round),
    u32(Math.floor(attempt / DRAWS_PER_SEED)),
    bytes32(entropy),
  );
