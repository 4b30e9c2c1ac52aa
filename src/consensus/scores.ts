/**
 * Scores of contributions: combines the witnesses' measurements into one certified score per contribution, and the
 * scores of several rounds into a rating of each worker. A gain is how far a contribution lowers the loss; a score is a
 * gain in millionths, as an integer so that all workers compute the same.
 */

import type { WorkerId } from '../run/ids.ts';
import { MOST_SCORE, MOST_SCORES } from '../run/spec/feature-fields.ts';

export interface GainDistribution {
  /** The upper median. */
  readonly center: number;
  /** Comparable to a standard deviation; never 0. */
  readonly deviation: number;
}

/** Factor from the lower quartile of the deviations above the median to the standard deviation of normal values. */
const NORMAL = 3.14;
/** Largest deviation, in floors: estimates from few gains vary so much that two members' bounds would differ. */
const MOST_FLOORS = 2;
/** Smallest deviation as a share of the median: gains that happen to be alike underestimate it. */
const LEAST_SHARE = 1 / 4;

/**
 * Estimates median and deviation of finite gains (at least one). The deviation follows from the better half, so that a
 * minority cannot widen it much, and is at least `least`.
 */
export function distributionOf(gains: readonly number[], least: number): GainDistribution {
  const falling = [...gains].sort((a, b) => b - a);
  const middle = Math.floor((falling.length - 1) / 2);
  const center = falling[middle]!;
  // owners of the most important chunks gain a hundred times as much, so the largest gains are left out
  const quartile = middle - 1 - (middle >> 2);
  const deviation = NORMAL * ((falling[quartile] ?? center) - center);
  const floor = Math.max(LEAST_SHARE * Math.abs(center), least);
  return { center, deviation: Math.min(Math.max(deviation, floor), MOST_FLOORS * floor) };
}

/** Returns the gain below which a contribution is harmful: `width` deviations below 0, or below a negative median. */
export const harmBound = (
  { center, deviation }: GainDistribution,
  width: number,
  uncertainty = 0,
): number => Math.min(0, center) - width * Math.max(deviation, uncertainty);

/** Returns a gain in millionths, clamped to ±MOST_SCORE; a gain that is not finite gets the lowest score. */
export const scoreOfGain = (gain: number): number =>
  Number.isFinite(gain)
    ? Math.max(-MOST_SCORE, Math.min(MOST_SCORE, Math.round(gain * 1e6))) + 0
    : -MOST_SCORE;

/** The scores of one witness, and its weight. */
export interface Witnessed {
  readonly weight: bigint;
  /** Scores by roster index, only of contributions that the witness had received. */
  readonly scores: ReadonlyMap<number, number>;
}

/**
 * Returns the score of the worker at a roster index: the lower weighted median of its witnesses' scores, which a
 * minority cannot move beyond the score of another witness. 0 if most scorers had not received the contribution; null
 * if too few witnesses scored at all.
 */
export function scoreAt(index: number, witnesses: readonly Witnessed[]): number | null {
  const total = sumOf(witnesses);
  const scoring = witnesses.filter(({ scores }) => scores.size > 0);
  if (2n * sumOf(scoring) <= total) return null;
  const scorers = scoring.filter(({ scores }) => scores.has(index));
  if (2n * sumOf(scorers) <= sumOf(scoring)) return 0;
  const rising = scorers.sort((a, b) => a.scores.get(index)! - b.scores.get(index)!);
  const half = sumOf(scorers);
  let below = 0n;
  for (const { weight, scores } of rising) {
    below += weight;
    if (2n * below >= half) return scores.get(index)!;
  }
  return 0;
}

const sumOf = (witnesses: readonly Witnessed[]): bigint =>
  witnesses.reduce((sum, { weight }) => sum + weight, 0n);

/** Appends a score to the history, oldest first, and drops those that are too old. */
export const withScore = (history: readonly number[], score: number): readonly number[] =>
  [...history, score].slice(-MOST_SCORES);

/** Returns the rolling score: the mean of the history, rounded towards 0; 0 if it is empty. */
export const rollingScore = (history: readonly number[]): number =>
  history.length === 0
    ? 0
    : Math.trunc(history.reduce((sum, score) => sum + score, 0) / history.length) + 0;

/** A worker and its scores, oldest first. */
export interface Rated {
  readonly key: WorkerId;
  readonly history: readonly number[];
}

/** Smallest number of scores that can count against a worker. */
const LEAST_SCORES = 2;
/** Distance of the floor of rolling scores below zero, in deviations. */
const FLOOR = 3;
/**
 * Uncertainty of rolling scores as a share of their typical size; with less, honest keys fall under the floor now and
 * then.
 */
const UNCERTAIN_SHARE = 3 / 10;
/** Smallest uncertainty of rolling scores, in millionths. */
const MIN_DEVIATION = 1000;

/** Returns the lower median over keys of the mean absolute score. */
function typicalSize(histories: readonly (readonly number[])[]): number {
  const sizes = histories
    .map((history) => history.reduce((sum, score) => sum + Math.abs(score), 0) / history.length)
    .sort((a, b) => a - b);
  return sizes[(sizes.length - 1) >> 1]!;
}

/**
 * Returns the floor of rolling scores: a key below it does harm round after round. Null while fewer than two keys have
 * enough scores. The floor allows for an uncertainty that is a share of the typical score.
 */
export function floorOf(rated: readonly Rated[]): number | null {
  const known = rated.filter(({ history }) => history.length >= LEAST_SCORES);
  if (known.length < 2) return null;
  const rolling = known.map(({ history }) => rollingScore(history));
  const uncertainty = UNCERTAIN_SHARE * typicalSize(known.map(({ history }) => history));
  return Math.trunc(
    harmBound(distributionOf(rolling, Math.max(MIN_DEVIATION, uncertainty)), FLOOR),
  );
}

/** Returns the keys whose rolling score is below the floor. */
export function belowFloor(rated: readonly Rated[]): ReadonlySet<WorkerId> {
  const floor = floorOf(rated);
  const below = rated.filter(
    ({ history }) =>
      floor !== null && history.length >= LEAST_SCORES && rollingScore(history) < floor,
  );
  return new Set(below.map(({ key }) => key));
}

/** Maximum number of keys in a weight vector. */
const MOST_WEIGHED = 64;

/** Returns the weight vector: the best positive rolling scores as shares of 1, best first, ties by key. */
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
