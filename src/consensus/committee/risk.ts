/**
 * The odds of a bad draw: how likely a committee has so many hostile members that its quorum protects nobody, for one round and
 * for a run. Keys are drawn alike here: whoever has stake to split splits it over as many keys as pay off, and is counted so.
 */
import { type QuorumRule, quorumOf } from './quorum.ts';

export interface RiskInput {
  /** N: keys that may sit; `Infinity` for a pool much larger than the committee. */
  readonly keys: number;
  /** The share of them in one hostile hand. */
  readonly hostile: number;
  /** K. */
  readonly seats: number;
  readonly rule: QuorumRule;
  /** d: keys by which the committees of two recovery attempts may differ; 0 in a first attempt. */
  readonly differ: number;
  readonly rounds: number;
}

/** Something bad, by how many hostile members it takes. */
export interface Odds {
  /** Hostile members from which on it can happen; more than there are seats where it cannot. */
  readonly from: number;
  readonly perRound: number;
  /** At least once in all rounds. */
  readonly perRun: number;
}

export interface Risk {
  /** K, which is no more than the keys there are. */
  readonly seats: number;
  /** k. */
  readonly quorum: number;
  /** Members that may be away. */
  readonly away: number;
  /** f: members that may sign two things without harm; -1 where two committees may disagree without any. */
  readonly equivocate: number;
  /** Two outcomes of one round can be certified. */
  readonly forgery: Odds;
  /** Hostile members alone are a quorum and certify what they like. */
  readonly takeover: Odds;
  /** Hostile members that stay silent keep a first attempt from ending. */
  readonly stall: Odds;
}

/** What a committee stands up to, and how likely a draw gives one that does not. */
export function riskOf(danger: RiskInput): Risk {
  const { keys, rule, differ } = danger;
  const seats = Math.min(danger.seats, keys);
  const quorum = quorumOf(rule, seats);
  const chances = seatChances({ ...danger, seats });
  const odds = (from: number): Odds => {
    const least = Math.max(0, from);
    // smallest first, so that nothing small is lost
    const perRound = Math.min(
      1,
      chances.slice(least).reduceRight((sum, each) => sum + each, 0),
    );
    return { from: least, perRound, perRun: atLeastOnce(perRound, danger.rounds) };
  };
  const broken = 2 * quorum - seats - differ;
  return {
    ...{ seats, quorum, away: seats - quorum, equivocate: Math.max(-1, broken - 1) },
    forgery: odds(broken),
    takeover: odds(quorum),
    stall: odds(seats - quorum + 1),
  };
}

/** The chance of exactly 0, 1, … hostile seats: hypergeometric, binomial in an endless pool. */
export function seatChances({
  keys,
  hostile,
  seats,
}: Pick<RiskInput, 'keys' | 'hostile' | 'seats'>): readonly number[] {
  const bad = Number.isFinite(keys) ? Math.round(keys * hostile) : keys;
  const least = Number.isFinite(keys) ? Math.max(0, seats - (keys - bad)) : 0;
  const most = hostile === 0 ? 0 : Math.min(seats, bad);
  /** The chance of i + 1 over that of i. */
  const step = (i: number): number =>
    Number.isFinite(keys)
      ? ((bad - i) / (i + 1)) * ((seats - i) / (keys - bad - seats + i + 1))
      : ((seats - i) / (i + 1)) * (hostile / (1 - hostile));
  // from the likeliest count both ways, as a share of it: what is too small for a double is nothing
  let mode = least;
  while (mode < most && step(mode) > 1) mode++;
  const chances = new Array<number>(seats + 1).fill(0);
  chances[mode] = 1;
  for (let i = mode; i < most; i++) chances[i + 1] = chances[i]! * step(i);
  for (let i = mode; i > least; i--) chances[i - 1] = chances[i]! / step(i - 1);
  const sum = chances.reduce((total, each) => total + each, 0);
  return chances.map((each) => each / sum);
}

/** 1 - (1 - chance)^times, exact for tiny chances: by doubling, with the chances of two independent spans. */
export function atLeastOnce(chance: number, times: number): number {
  const either = (a: number, b: number) => a + b - a * b;
  let sum = 0;
  let span = chance;
  for (let left = times; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) sum = either(sum, span);
    span = either(span, span);
  }
  return sum;
}
