/** The effect of one hostile contribution among N on the mean, as in the table of docs/harmful-contributions.md. */
import { readFileSync } from 'node:fs';
import { weightedMean } from 'nostrain/consensus';
import { completePlan } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { boundRows, nextSizes } from '../../../src/consensus/aggregate/norm-bound.ts';
import { dense } from '../../support/vectors.ts';

const { normBound } = completePlan({ run: 'r', rounds: 1, innerSteps: 1 });
const HONEST = [1, -2, 0.5];

/** Progress of the mean of N rows in the honest direction, 1 if all are honest; one row is `times` the honest one. */
function progress(count: number, times: number): number {
  let history: readonly number[] = [];
  let moved = 0;
  // enough rounds for the hostile worker to influence the history of the bound
  for (let round = 0; round < 20; round++) {
    const rows = Array.from({ length: count }, (_, i) =>
      HONEST.map((x) => x * (i > 0 ? 1 : times)),
    );
    const deltas = rows.map((row) => dense(row));
    const { scales, typical } = boundRows(deltas, { normBound, history, parameters: 1 });
    history = nextSizes(history, typical);
    const { mean } = weightedMean(
      deltas.map((delta, i) => ({
        ...{ worker: `${i}`, id: `${i}`, late: false, delta, weight: 1, scale: scales[i]! },
      })),
      { size: HONEST.length, normalize: 'workers' },
    );
    moved = mean[0]! / HONEST[0]!;
  }
  return moved;
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;

describe('one hostile row', () => {
  const page = readFileSync('docs/harmful-contributions.md', 'utf8');
  it.each([2, 3, 4, 8, 16, 32])('of %i does what the page says', (count) => {
    const worst = progress(count, -1e38);
    const silent = progress(count, 0);
    expect(page).toMatch(
      new RegExp(`\\| ${count} +\\| ${percent(worst)} +\\| ${percent(silent)} +\\|`),
    );
  });

  it.each([3, 4, 8, 16, 32])('of %i does not stop the model', (count) => {
    for (const times of [-1e38, -3, -1.5, -1, 0, 1e-30, 1e38]) {
      expect(progress(count, times)).toBeGreaterThan(0.15);
    }
  });
});
