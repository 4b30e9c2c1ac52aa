/** The linear model that fits examples best, in one step: what training by gradient descent is measured against. */
import type { RegressionSet } from '../../model/data/regression.ts';

export interface LinearFit {
  /** (F) */
  readonly weights: readonly number[];
  readonly bias: number;
}

/** Least squares over all sets together, by the normal equations. Throws a RangeError where the examples do not decide. */
export function leastSquares(sets: readonly RegressionSet[]): LinearFit {
  const features = sets[0]?.features ?? 0;
  const width = features + 1;
  // augmented: [X'X | X'y], the last column of X being 1
  const rows = Array.from({ length: width }, () => new Float64Array(width + 1));
  for (const { size, inputs, targets } of sets) {
    for (let row = 0; row < size; row++) {
      const x = [...inputs.subarray(row * features, (row + 1) * features), 1];
      const right = [...x, targets[row]!];
      x.forEach((left, i) => {
        right.forEach((value, j) => {
          rows[i]![j]! += left * value;
        });
      });
    }
  }
  const solution = solve(rows);
  return { weights: solution.slice(0, features), bias: solution[features]! };
}

/** Gauss-Jordan elimination with the largest pivot. */
function solve(rows: Float64Array[]): number[] {
  const width = rows.length;
  for (let column = 0; column < width; column++) {
    const size = (row: Float64Array) => Math.abs(row[column]!);
    const below = rows.slice(column).reduce((a, b) => (size(b) > size(a) ? b : a));
    if (size(below) < 1e-12) throw new RangeError('the examples leave more than one best fit');
    const at = rows.indexOf(below);
    [rows[column], rows[at]] = [rows[at]!, rows[column]!];
    const pivot = rows[column]!;
    for (const row of rows) {
      const share = row === pivot ? 0 : row[column]! / pivot[column]!;
      for (let j = column; j <= width; j++) row[j]! -= share * pivot[j]!;
    }
  }
  return rows.map((row, i) => row[width]! / row[i]!);
}

/** How far two models are apart: the largest difference of a parameter. */
export const largestDifference = (a: LinearFit, b: LinearFit): number =>
  Math.max(
    ...a.weights.map((weight, i) => Math.abs(weight - b.weights[i]!)),
    Math.abs(a.bias - b.bias),
  );
