/** Optimizers as f64 graphs against their textbook formulas written out in TypeScript. */

import { createGraph } from 'nostrain/model';
import type { OptimizerSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { reduceSum, square } from '../../../src/model/graph/verbs.ts';
import { clipFactor, learningRateAt, scalars } from '../../../src/model/optimizers/optimizer.ts';
import { optimizerOf } from '../../../src/model/optimizers/table.ts';
import { adamwSpec, constantRate } from '../../support/ort-models.ts';
import { loadGraph } from '../../support/ort-run.ts';

const size = 4;
const start = [0.5, -1, 2, 0];
const gradientsByStep = [
  [0.3, -0.2, 0.05, 1e-4],
  [3, -4, 12, 0],
  [-0.1, 0.4, 0.2, -1e-3],
];

/** Parameters after every step, by the graph. */
async function steps(spec: OptimizerSpec): Promise<readonly (readonly number[])[]> {
  const optimizer = optimizerOf(spec, []);
  const vector = { dtype: 'f64', shape: [size] } as const;
  const rateType = { dtype: 'f64', shape: [optimizer.rateCount] } as const;
  const graph = createGraph();
  const gradient = graph.input('gradient', vector);
  const updated = optimizer.update({
    params: graph.input('params', vector),
    gradient,
    factor: spec.clipNorm > 0 ? clipFactor(reduceSum(square(gradient)), spec.clipNorm) : undefined,
    moments: optimizer.moments.map((name) => graph.input(name, vector)),
    rates: scalars(graph.input('rates', rateType)),
    from: 0,
  });
  graph.output('params.next', updated.params);
  optimizer.moments.forEach((name, i) => {
    graph.output(`${name}.next`, updated.moments[i]!);
  });
  const run = await loadGraph(graph);
  const state = new Map(['params', ...optimizer.moments].map((name) => [name, [0, 0, 0, 0]]));
  state.set('params', start);
  const history: number[][] = [];
  for (const [t, gradient] of gradientsByStep.entries()) {
    const vectors = [...state, ['gradient', gradient] as const];
    const results = await run({
      ...Object.fromEntries(vectors.map(([name, elements]) => [name, { ...vector, elements }])),
      rates: { ...rateType, elements: optimizer.rates(t, t) },
    });
    for (const name of state.keys()) state.set(name, [...results[`${name}.next`]!]);
    history.push(state.get('params')!);
  }
  return history;
}

function expectClose(
  actual: readonly (readonly number[])[],
  expected: readonly (readonly number[])[],
): void {
  actual.forEach((row, t) => {
    row.forEach((value, i) => {
      expect(Math.abs(value - expected[t]![i]!)).toBeLessThan(1e-12);
    });
  });
}

/** Scaled down to norm `most` when longer. */
function clipped(gradient: readonly number[], most: number): readonly number[] {
  const norm = Math.hypot(...gradient);
  const factor = most === 0 ? 1 : Math.min(1, most / (norm + 1e-6));
  return gradient.map((g) => g * factor);
}

describe('adamw', () => {
  for (const clipNorm of [0, 1]) {
    test(`follows the formula, clip ${clipNorm}`, async () => {
      const spec = { ...adamwSpec, clipNorm, schedule: constantRate(0.1) };
      const { beta1, beta2, epsilon, weightDecay } = spec;
      const [m, s] = [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
      ];
      const p = [...start];
      const expected = gradientsByStep.map((raw, step) => {
        const t = step + 1;
        clipped(raw, clipNorm).forEach((g, i) => {
          m[i] = beta1 * m[i]! + (1 - beta1) * g;
          s[i] = beta2 * s[i]! + (1 - beta2) * g * g;
          const mHat = m[i]! / (1 - beta1 ** t);
          const sHat = s[i]! / (1 - beta2 ** t);
          p[i] = p[i]! - 0.1 * (mHat / (Math.sqrt(sHat) + epsilon) + weightDecay * p[i]!);
        });
        return [...p];
      });
      expectClose(await steps(spec), expected);
    });
  }
});

describe('sgd', () => {
  for (const clipNorm of [0, 1]) {
    test(`follows the formula, clip ${clipNorm}`, async () => {
      const p = [...start];
      const expected = gradientsByStep.map((raw) => {
        clipped(raw, clipNorm).forEach((g, i) => {
          p[i] = p[i]! - 0.1 * g;
        });
        return [...p];
      });
      const spec = { optimizer: 'sgd', clipNorm, schedule: constantRate(0.1) } as const;
      expectClose(await steps(spec), expected);
    });
  }
});

test('the schedule warms up, then falls along a cosine to its final share', () => {
  const schedule = { learningRate: 2, warmupSteps: 4, totalSteps: 104, finalShare: 0.1 };
  const rates = [0, 3, 4, 54, 104, 500].map((step) => learningRateAt(schedule, step));
  [0.5, 2, 2, 1.1, 0.2, 0.2].forEach((rate, i) => {
    expect(rates[i]).toBeCloseTo(rate, 12);
  });
  expect(learningRateAt({ ...schedule, totalSteps: 0 }, 1000)).toBe(2);
});
