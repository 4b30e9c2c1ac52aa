/**
 * Krum (arXiv 1703.02757): the row whose nearest others are closest, as it is; Multi-Krum: the mean of the best n - f rows. A row's score
 * is the sum of its n - f - 2 smallest squared distances to others. Of equal scores the earlier row wins.
 */
import { ConfigError } from '../../base/errors.ts';
import { type Distances, othersOf } from './distances.ts';

/** All weight on the best row. */
export const krum = (distances: Distances, hostile: number): Float64Array =>
  weightsOf(distances, byScore(distances, hostile).slice(0, 1));

/** The same weight on each of the best. */
export const multiKrum = (distances: Distances, hostile: number): Float64Array =>
  weightsOf(distances, byScore(distances, hostile).slice(0, distances.count - hostile));

function byScore(distances: Distances, hostile: number): readonly number[] {
  const { count } = distances;
  if (count < 2 * hostile + 3) throw tooFew(count, hostile);
  const scores = Array.from({ length: count }, (_, i) => {
    let sum = 0;
    for (const square of othersOf(distances, i).subarray(0, count - hostile - 2)) sum += square;
    return sum;
  });
  return scores.map((_, i) => i).sort((a, b) => scores[a]! - scores[b]! || a - b);
}

function weightsOf({ count }: Distances, chosen: readonly number[]): Float64Array {
  const weights = new Float64Array(count);
  for (const i of chosen) weights[i] = 1;
  return weights;
}

const tooFew = (rows: number, hostile: number): ConfigError =>
  new ConfigError(
    'rule/too-few-rows',
    `krum with ${hostile} hostile rows needs ${2 * hostile + 3} rows, there are ${rows}`,
    {
      hint: 'a trimmed mean or geometric median needs two fewer',
      data: { rows, required: 2 * hostile + 3 },
    },
  );
