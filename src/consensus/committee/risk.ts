/**
 * Computes the probability that a sampled committee has too many Byzantine members to be safe or live, for
 * `nostrain witness odds`. An attacker's stake counts as the number of keys it is best split into.
 */
import { type QuorumRule, quorumOf } from './quorum.ts';

export interface RiskInput {
  /** N: number of eligible keys; `Infinity` if there are far more keys than seats. */
  readonly keys: number;
  /** Fraction of them that one attacker controls. */
  readonly hostile: number;
  /** K: number of seats. */
  readonly seats: number;
  readonly rule: QuorumRule;
  /** d: number of members by which the committees of two recovery epochs may differ; 0 without recovery. */
  readonly differ: number;
  readonly rounds: number;
}

/** Probability of an attack on a run. */
export interface Odds {
  /** Number of hostile members required; greater than the number of seats if it is impossible. */
  readonly from: number;
  readonly perRound: number;
  /** Probability that it happens at least once in all rounds. */
  readonly perRun: number;
}

export interface Risk {
  /** K: seats, at most N. */
  readonly seats: number;
  /** k. */
  readonly quorum: number;
  /** Number of members that may be offline. */
  readonly away: number;
  /** f: number of equivocating members tolerated; -1 if two committees may disagree without any. */
  readonly equivocate: number;
  /** Two outcomes of one round can be certified. */
  readonly forgery: Odds;
  /** Hostile members alone are a quorum and can certify anything. */
  readonly takeover: Odds;
  /** Silent hostile members can stall recovery epoch 0. */
  readonly stall: Odds;
}

/** Returns what a committee tolerates and the probabilities that a drawn committee fails. */
export function riskOf(danger: RiskInput): Risk {
  const { keys, rule, differ } = danger;
  const seats = Math.min(danger.seats, keys);
  const quorum = quorumOf(rule, seats);
  const chances = seatChances({ ...danger, seats });
  const odds = (from: number): Odds => {
    const least = Math.max(0, from);
    // summed smallest first, so that small terms are not rounded away
    const perRound = Math.min(
      1,
      chances.slice(least).reduceRight((sum, each) => sum + each, 0),
    );
    return { from: least, perRound, perRun: atLeastOnce(perRound, danger.rounds) };
  };
  const broken = 2 * quorum - seats - differ;
  return {
    seats,
    quorum,
    away: seats - quorum,
    equivocate: Math.max(-1, broken - 1),
    forgery: odds(broken),
    takeover: odds(quorum),
    stall: odds(seats - quorum + 1),
  };
}

/** Returns the probabilities of 0, 1, … hostile seats: hypergeometric, or binomial for infinitely many keys. */
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
  // outwards from the most likely count, relative to it: values too small for a double become 0
  let mode = least;
  while (mode < most && step(mode) > 1) mode++;
  const chances = new Array<number>(seats + 1).fill(0);
  chances[mode] = 1;
  for (let i = mode; i < most; i++) chances[i + 1] = chances[i]! * step(i);
  for (let i = mode; i > least; i--) chances[i - 1] = chances[i]! / step(i - 1);
  const sum = chances.reduce((total, each) => total + each, 0);
  return chances.map((each) => each / sum);
}

/** Returns 1 - (1 - chance)^times by repeated doubling, which is accurate for tiny chances. */
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
