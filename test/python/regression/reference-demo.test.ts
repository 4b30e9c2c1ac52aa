import { linearTruth, parseRegressionDataset } from 'nostrain/model';
import { describe, expect, it } from 'vitest';
import {
  largestDifference,
  leastSquares,
  REFERENCE_SHARDS,
  referenceShard,
} from '../../../demos/linear/reference.ts';
import { readVectors } from '../../support/vectors.ts';

const { train_local } = readVectors<{ train_local: { name: string; dataset: unknown }[] }>(
  'runtime.json',
);
const shards = Array.from({ length: REFERENCE_SHARDS }, (_, i) => referenceShard(i));

describe("the examples of the reference's demo", () => {
  it.each([1, 2, 3, 4])('shard %i is the recorded one', (number) => {
    const recorded = train_local.find(({ name }) => name === `demo-shard-${number}-80x4`)!;
    expect(referenceShard(number - 1)).toEqual(parseRegressionDataset(recorded.dataset));
  });

  it('there are four', () => {
    expect(() => referenceShard(4)).toThrow(RangeError);
  });
});

describe('leastSquares', () => {
  it('finds what noise leaves of the truth', () => {
    const fit = leastSquares(shards);
    expect(largestDifference(fit, linearTruth)).toBeCloseTo(0.0675, 4);
    expect(
      Math.hypot(...fit.weights.map((weight, i) => weight - linearTruth.weights[i]!)),
    ).toBeCloseTo(0.0976, 4);
  });

  it('finds an exact model exactly, and reports if there is none', () => {
    const inputs = Float64Array.of(0, 0, 1, 0, 0, 1, 2, 3);
    const targets = Float64Array.of(1, 3, 0, 2);
    const fit = leastSquares([{ size: 4, features: 2, inputs, targets }]);
    expect(largestDifference(fit, { weights: [2, -1], bias: 1 })).toBeLessThan(1e-12);
    expect(() => leastSquares([{ size: 1, features: 2, inputs, targets }])).toThrow(RangeError);
  });
});
