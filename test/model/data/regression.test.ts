import { ConfigError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import {
  linearExamples,
  linearTruth,
  parseRegressionDataset,
  type RegressionSet,
} from '../../../src/model/data/regression.ts';

const shards = (seed: number) =>
  [1, 2, 3, 4].map((index) => linearExamples({ seed, shard: { index, count: 4 } }));

/** Weights, then the bias, that minimize the squared error: Gauss-Jordan on the normal equations. */
function leastSquares(sets: readonly RegressionSet[]): number[] {
  const n = sets[0]!.features + 1;
  const system = Array.from({ length: n }, () => new Float64Array(n + 1));
  for (const { size, features, inputs, targets } of sets) {
    for (let row = 0; row < size; row++) {
      const x = [...inputs.subarray(row * features, (row + 1) * features), 1];
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < n; j++) system[i]![j]! += x[i]! * x[j]!;
        system[i]![n]! += x[i]! * targets[row]!;
      }
    }
  }
  for (let i = 0; i < n; i++) {
    const pivot = system[i]!;
    for (let row = 0; row < n; row++) {
      if (row === i) continue;
      const factor = system[row]![i]! / pivot[i]!;
      for (let j = i; j <= n; j++) system[row]![j]! -= factor * pivot[j]!;
    }
  }
  return system.map((row, i) => row[n]! / row[i]!);
}

describe('linearExamples', () => {
  it.each([0, 1, 7, 12345])('seed %d: least squares over all shards finds the truth', (seed) => {
    const found = leastSquares(shards(seed));
    const truth = [...linearTruth.weights, linearTruth.bias];
    found.forEach((value, i) => {
      expect(Math.abs(value - truth[i]!)).toBeLessThan(0.05);
    });
  });

  it('has noise of the size asked for', () => {
    const [set] = shards(1);
    const { weights, bias } = linearTruth;
    let energy = 0;
    for (let i = 0; i < set!.size; i++) {
      const x = set!.inputs.subarray(3 * i, 3 * i + 3);
      const clean = weights.reduce<number>((sum, weight, f) => sum + weight * x[f]!, bias);
      energy += (set!.targets[i]! - clean) ** 2;
    }
    const deviation = Math.sqrt(energy / set!.size);
    expect(deviation).toBeGreaterThan(0.04);
    expect(deviation).toBeLessThan(0.06);
  });

  it('shares no example between shards or seeds', () => {
    const rows = [...shards(1), ...shards(2)].flatMap(({ size, inputs }) =>
      Array.from({ length: size }, (_, i) => inputs.subarray(3 * i, 3 * i + 3).join()),
    );
    expect(new Set(rows).size).toBe(rows.length);
  });

  it('is the same every time', () => {
    expect(shards(3)).toEqual(shards(3));
    expect([...shards(3)[0]!.inputs.subarray(0, 3)]).toMatchInlineSnapshot(`
      [
        -0.415710142115131,
        -0.11074630846269429,
        -0.8168074765708297,
      ]
    `);
  });
});

describe('parseRegressionDataset', () => {
  it('reads what the Python reference writes', () => {
    const examples = [
      { inputs: [1, 2], target: 3 },
      { inputs: ['4', ' -5e-1 '], target: '6' },
    ];
    expect(parseRegressionDataset({ task: ' Linear-Regression ', examples })).toEqual({
      task: 'linear-regression',
      size: 2,
      features: 2,
      inputs: Float64Array.of(1, 2, 4, -0.5),
      targets: Float64Array.of(3, 6),
    });
    expect(parseRegressionDataset({ examples }).task).toBeUndefined();
    expect(parseRegressionDataset({ task: 'mlp-regression', examples }).task).toBe(
      'mlp-regression',
    );
  });

  // the same inputs as the reference's dataset errors, then some it is silent about
  const example = { inputs: [1], target: 1 };
  it.each([
    [[], 'dataset is not a JSON object'],
    [{}, 'dataset examples is not a list'],
    [{ examples: [] }, 'dataset examples is not a list'],
    [{ task: 'nope', examples: [example] }, 'dataset task "nope" is neither'],
    [{ examples: [{ inputs: [], target: 1 }] }, 'examples[0].inputs is not a list'],
    [{ examples: [{ inputs: [1] }] }, 'examples[0].target is not a finite number'],
    [{ examples: [example, { inputs: [1, 2], target: 1 }] }, 'examples[1].inputs has 2 numbers'],
    [null, 'dataset is not a JSON object'],
    [{ task: 1, examples: [example] }, 'dataset task 1 is neither'],
    [{ examples: [1] }, 'examples[0] is not an object'],
    [{ examples: [{ inputs: [Number.NaN], target: 1 }] }, 'examples[0].inputs[0] is not a finite'],
    [{ examples: [{ inputs: ['0x10'], target: 1 }] }, 'examples[0].inputs[0] is not a finite'],
    [{ examples: [{ inputs: [1], target: '' }] }, 'examples[0].target is not a finite number'],
  ])('refuses %j', (json, message) => {
    expect(() => parseRegressionDataset(json)).toThrow(ConfigError);
    expect(() => parseRegressionDataset(json)).toThrow(message);
  });
});
