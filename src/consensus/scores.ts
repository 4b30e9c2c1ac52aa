/**
 * Scores: what witnesses measured of contributions as one certified number, and the scores of many rounds as who is
 * good. A gain lowers a loss; a score is a gain in millionths, in integers wherever it is certified.
 */

import type { WorkerId } from '../run/ids.ts';
import { MOST_SCORE, MOST_SCORES } from '../run/spec/feature-fields.ts';

export interface GainSpread {
  /** The upper median. */
  readonly center: number;
  /** Like a standard deviation; never 0. */
  readonly size: number;
}

/** Lower quartiles of deviations above the middle in a standard deviation of normal values. */
const NORMAL = 3.14;
/** A few gains tell how far they lie apart so badly that two members would find bounds too far from each other. */
const MOST_FLOORS = 2;
/** Gains that happen to be alike say little of how far honest ones may lie apart. */
const LEAST_SHARE = 1 / 4;

/**
 * How far finite gains (at least one) lie apart, by their better half, so that a minority cannot widen it much. At
 * least `least`.
 */
export function spreadOf(gains: readonly number[], least: number): GainSpread {
  const falling = [...gains].sort((a, b) => b - a);
  const middle = Math.floor((falling.length - 1) / 2);
  const center = falling[middle]!;
  // owners of the most important chunks gain a hundred times as much: the largest gains say nothing of the others
  const quartile = middle - 1 - (middle >> 2);
  const deviation = NORMAL * ((falling[quartile] ?? center) - center);
  const floor = Math.max(LEAST_SHARE * Math.abs(center), least);
  return { center, size: Math.min(Math.max(deviation, floor), MOST_FLOORS * floor) };
}

/** Gains under it are harm: so many spreads below zero, or below the middle if that is a loss too. */
export const harmBound = ({ center, size }: GainSpread, width: number, uncertainty = 0): number =>
  Math.min(0, center) - width * Math.max(size, uncertainty);

/** A gain in millionths, within bounds. */
export const scoreOfGain = (gain: number): number =>
  Number.isFinite(gain)
    ? Math.max(-MOST_SCORE, Math.min(MOST_SCORE, Math.round(gain * 1e6))) + 0
    : -MOST_SCORE;

export interface Witnessed {
  readonly weight: bigint;
  /** By roster index; of those whose contribution it held. */
  readonly scores: ReadonlyMap<number, number>;
}

/**
 * Returns the score of a roster index: the lower weighted median of its witnesses, which a minority cannot move beyond
 * what another scorer reported. 0 if most scorers held nothing; null if too few scored.
 */
export function scoreAt(index: number, witnesses: readonly Witnessed[]): number | null {
  const total = sumOf(witnesses);
  const scoring = witnesses.filter(({ scores }) => scores.size > 0);
  if (2n * sumOf(scoring) <= total) return null;
  const said = scoring.filter(({ scores }) => scores.has(index));
  if (2n * sumOf(said) <= sumOf(scoring)) return 0;
  const rising = said.sort((a, b) => a.scores.get(index)! - b.scores.get(index)!);
  const half = sumOf(said);
  let below = 0n;
  for (const { weight, scores } of rising) {
    below += weight;
    if (2n * below >= half) return scores.get(index)!;
  }
  return 0;
}

const sumOf = (witnesses: readonly Witnessed[]): bigint =>
  witnesses.reduce((sum, { weight }) => sum + weight, 0n);

/** The last scores, oldest first, with another one. */
export const withScore = (history: readonly number[], score: number): readonly number[] =>
  [...history, score].slice(-MOST_SCORES);

/** The rolling score: the mean of the last ones, rounded towards 0; 0 without any. */
export const rollingScore = (history: readonly number[]): number =>
  history.length === 0
    ? 0
    : Math.trunc(history.reduce((sum, score) => sum + score, 0) / history.length) + 0;

export interface Rated {
  readonly key: WorkerId;
  readonly history: readonly number[];
}

/** Fewer scores than this say nothing against anybody. */
const LEAST_SCORES = 2;
/** Spreads of rolling scores worse than nothing. */
const FLOOR = 3;
/**
 * Uncertainty of rolling scores as a share of their scores: with less, honest keys fall under the floor now and then.
 */
const OWN_SHARE = 3 / 10;
/** And at least, in millionths. */
const LEAST_SPREAD = 1000;

/** The lower median, of keys, of how large their scores are. */
function typicalSize(histories: readonly (readonly number[])[]): number {
  const sizes = histories
    .map((history) => history.reduce((sum, score) => sum + Math.abs(score), 0) / history.length)
    .sort((a, b) => a - b);
  return sizes[(sizes.length - 1) >> 1]!;
}

/**
 * The floor of rolling scores; a key under it does harm round after round. Null while too few were scored. Scores that
 * turn from gains to losses are uncertain by a share of their own size.
 */
export function floorOf(rated: readonly Rated[]): number | null {
  const known = rated.filter(({ history }) => history.length >= LEAST_SCORES);
  if (known.length < 2) return null;
  const rolling = known.map(({ history }) => rollingScore(history));
  const own = OWN_SHARE * typicalSize(known.map(({ history }) => history));
  return Math.trunc(harmBound(spreadOf(rolling, Math.max(LEAST_SPREAD, own)), FLOOR));
}

/** Those under the floor. */
export function belowFloor(rated: readonly Rated[]): ReadonlySet<WorkerId> {
  const floor = floorOf(rated);
  const below = rated.filter(
    ({ history }) =>
      floor !== null && history.length >= LEAST_SCORES && rollingScore(history) < floor,
  );
  return new Set(below.map(({ key }) => key));
}

/** Keys that a weight vector names at most. */
const MOST_WEIGHED = 64;

/** The weight vector: the best positive rolling scores as shares of 1, best first, ties by key. */
export function weightVector(
  rated: readonly Rated[],
  most = MOST_WEIGHED,
): readonly { readonly key: WorkerId; readonly weight: number }[] {
  const good = rated
    .map(({ key, history }) => ({ key, score: rollingScore(history) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || (a.key < b.key ? -1 : 1))
    .slice(0, most);
  const total = good.reduce((sum, { score }) => sum + score, 0);
  return good.map(({ key, score }) => ({ key, weight: score / total }));
}
