/** Muon as f64 graphs against the formula written out in TypeScript; which matrices it turns; and that it learns. */

import { deriveKey, philox } from 'nostrain/base';
import {
  compileTraining,
  createGraph,
  drawRows,
  encodeModel,
  initialParameters,
  lower,
  modelLayout,
} from 'nostrain/model';
import type { ModelSpec, OptimizerSpec } from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { orthogonal } from '../../../src/model/optimizers/muon.ts';
import type { HiddenMatrix } from '../../../src/model/optimizers/optimizer.ts';
import { scalars } from '../../../src/model/optimizers/optimizer.ts';
import { optimizerOf } from '../../../src/model/optimizers/table.ts';
import { hiddenMatrices } from '../../../src/model/parameters.ts';
import { adamwSpec, constantRate, muonSpec, tinyGpt } from '../../support/ort-models.ts';
import { load, loadGraph } from '../../support/ort-run.ts';

/** Rows of numbers. */
type Matrix = readonly (readonly number[])[];

/** Nearly normal numbers. */
const noise = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => {
    const words = philox([seed, 7], i, 0, 0, 0);
    return words.reduce((sum, word) => sum + word / 2 ** 32 - 0.5, 0) * Math.sqrt(3);
  });

const shaped = (elements: ArrayLike<number>, rows: number, columns: number): Matrix =>
  Array.from({ length: rows }, (_, r) =>
    Array.from({ length: columns }, (_, c) => elements[r * columns + c]!),
  );

const transposed = (a: Matrix): Matrix => a[0]!.map((_, c) => a.map((row) => row[c]!));

const product = (a: Matrix, b: Matrix): Matrix => {
  const columns = transposed(b);
  return a.map((row) => columns.map((column) => row.reduce((s, x, i) => s + x * column[i]!, 0)));
};

const blend = (...summands: readonly (readonly [number, Matrix])[]): Matrix =>
  summands[0]![1].map((row, r) =>
    row.map((_, c) => summands.reduce((sum, [factor, m]) => sum + factor * m[r]![c]!, 0)),
  );

/** Newton-Schulz as it is written down, on whichever side is given. */
function newtonSchulz(matrix: Matrix): Matrix {
  // onnxruntime keeps the factors of a product as f32
  const [a, b, c] = [3.4445, -4.775, 2.0315].map(Math.fround);
  const norm = Math.hypot(...matrix.flat());
  let x: Matrix = matrix.map((row) => row.map((value) => value / (norm + 1e-7)));
  for (let i = 0; i < 5; i++) {
    const outer = product(x, transposed(x));
    x = blend([a!, x], [b!, product(outer, x)], [c!, product(outer, product(outer, x))]);
  }
  return x;
}

/** Singular values: the roots of the eigenvalues of the smaller Gram matrix, by Jacobi's rotations. */
function singularValues(matrix: Matrix): readonly number[] {
  const upright = matrix.length < matrix[0]!.length ? transposed(matrix) : matrix;
  const columns = transposed(upright).map((column) => [...column]);
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  for (let sweep = 0; sweep < 12; sweep++) {
    for (let i = 0; i < columns.length; i++) {
      for (let j = i + 1; j < columns.length; j++) {
        const [u, v] = [columns[i]!, columns[j]!];
        const angle = Math.atan2(2 * dot(u, v), dot(u, u) - dot(v, v)) / 2;
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        columns[i] = u.map((value, k) => cos * value + sin * v[k]!);
        columns[j] = u.map((value, k) => cos * v[k]! - sin * value);
      }
    }
  }
  return columns.map((column) => Math.hypot(...column));
}

function expectClose(actual: ArrayLike<number>, expected: readonly number[], within: number): void {
  expect(actual.length).toBe(expected.length);
  expected.forEach((value, i) => {
    expect(Math.abs(actual[i]! - value)).toBeLessThan(within);
  });
}

const shapes = [
  { form: 'tall', rows: 24, columns: 8 },
  { form: 'wide', rows: 8, columns: 24 },
  { form: 'square', rows: 16, columns: 16 },
] as const;

describe('orthogonal', () => {
  for (const { form, rows, columns } of shapes) {
    for (const dtype of ['f64', 'f32'] as const) {
      test(`${form}, ${dtype}: the formula, and singular values near 1`, async () => {
        const graph = createGraph();
        graph.output('x', orthogonal(graph.input('u', { dtype, shape: [rows, columns] })));
        const run = await loadGraph(graph);
        for (const scale of [1, 1e-4]) {
          const elements = noise(rows * columns, rows).map((value) => Math.fround(value * scale));
          const { x } = await run({ u: { dtype, shape: [rows, columns], elements } });
          const expected = newtonSchulz(shaped(elements, rows, columns)).flat();
          expectClose(x!, expected, dtype === 'f64' ? 1e-11 : 1e-5);
          for (const value of singularValues(shaped(x!, rows, columns))) {
            expect(value).toBeGreaterThan(0.65);
            expect(value).toBeLessThan(1.25);
          }
        }
      });
    }
  }

  test('has the same bits on any number of threads', async () => {
    // flat on its side, a product of this size would be summed in another order by three threads
    const [rows, columns] = [144, 150];
    const graph = createGraph();
    graph.output('x', orthogonal(graph.input('u', { dtype: 'f32', shape: [rows, columns] })));
    const model = encodeModel(lower(graph, 'test', { target: 'cpu' }));
    const u = { dtype: 'f32', shape: [rows, columns], elements: noise(rows * columns, 5) } as const;
    const [one, ...more] = await Promise.all(
      [1, 2, 3, 4].map(async (threads) => await (await load(model, threads))({ u })),
    );
    for (const other of more) expect(other).toEqual(one);
  });

  test('of zeros is zero', async () => {
    const graph = createGraph();
    graph.output('x', orthogonal(graph.input('u', { dtype: 'f32', shape: [2, 3] })));
    const run = await loadGraph(graph);
    const { x } = await run({ u: { dtype: 'f32', shape: [2, 3], elements: [0, 0, 0, 0, 0, 0] } });
    expect([...x!]).toEqual([0, 0, 0, 0, 0, 0]);
  });
});

/** Two values, a matrix, one value, two matrices abreast, three values. */
const matrices: readonly HiddenMatrix[] = [
  { from: 2, to: 14, rows: 4, columns: 3, abreast: 1 },
  { from: 15, to: 33, rows: 3, columns: 6, abreast: 2 },
];
const size = 36;
const loose = [0, 1, 14, 33, 34, 35];

/** Parameters after each of three steps by the graph of the whole vector, or by those of its ranges. */
async function steps(spec: OptimizerSpec, cuts: readonly number[]): Promise<readonly number[][]> {
  const optimizer = optimizerOf(spec, matrices);
  const rateType = { dtype: 'f64', shape: [optimizer.rateCount] } as const;
  const names = ['params', ...optimizer.moments];
  const vectors = names.map((name) =>
    name === 'params' ? noise(size, 1) : noise(size, 0).fill(0),
  );
  const ranges = await Promise.all(
    cuts.slice(1).map(async (to, i) => {
      const from = cuts[i]!;
      const graph = createGraph();
      const vector = (name: string) => graph.input(name, { dtype: 'f64', shape: [to - from] });
      const updated = optimizer.update({
        params: vector('params'),
        gradient: vector('gradient'),
        factor: graph.input('factor', { dtype: 'f64', shape: [] }),
        moments: optimizer.moments.map(vector),
        rates: scalars(graph.input('rates', rateType)),
        from,
      });
      [updated.params, ...updated.moments].forEach((value, k) => {
        graph.output(`${names[k]}.next`, value);
      });
      return { from, to, run: await loadGraph(graph) };
    }),
  );
  const history: number[][] = [];
  for (let t = 0; t < 3; t++) {
    for (const { from, to, run } of ranges) {
      const part = (elements: readonly number[]) =>
        ({ dtype: 'f64', shape: [to - from], elements: elements.slice(from, to) }) as const;
      const results = await run({
        ...Object.fromEntries(names.map((name, k) => [name, part(vectors[k]!)])),
        gradient: part(noise(size, 10 + t)),
        factor: { dtype: 'f64', shape: [], elements: [0.5] },
        rates: { ...rateType, elements: optimizer.rates(t, t) },
      });
      names.forEach((name, k) => {
        vectors[k]!.splice(from, to - from, ...results[`${name}.next`]!);
      });
    }
    history.push([...vectors[0]!]);
  }
  return history;
}

const rate = 0.1;
const spec = { ...muonSpec, schedule: constantRate(rate), weightDecay: 0.2 };

describe('a step', async () => {
  const history = await steps(spec, [0, size]);

  test('moves matrices by the formula', () => {
    for (const [from, rows, columns, stride] of [
      [2, 4, 3, 3],
      [15, 3, 3, 6],
      [18, 3, 3, 6],
    ] as const) {
      const read = (vector: ArrayLike<number>): Matrix =>
        Array.from({ length: rows }, (_, r) =>
          Array.from({ length: columns }, (_, c) => vector[from + r * stride + c]!),
        );
      let p = read(noise(size, 1));
      let m = blend([0, p]);
      for (let t = 0; t < 3; t++) {
        const g = read(noise(size, 10 + t).map((value) => value / 2));
        m = blend([0.9, m], [0.1, g]);
        const orthogonalized = newtonSchulz(blend([0.9, m], [0.1, g]));
        const scale = rate * 1.5 * Math.sqrt(Math.max(rows, columns));
        p = blend([1 - rate * 0.2, p], [-scale, orthogonalized]);
        expectClose(read(history[t]!).flat(), p.flat(), 1e-10);
      }
    }
  });

  test('moves everything else as AdamW does', async () => {
    const other = await steps({ ...adamwSpec, ...spec, optimizer: 'adamw' }, [0, size]);
    for (const t of [0, 1, 2]) {
      expect(loose.map((i) => history[t]![i])).toEqual(loose.map((i) => other[t]![i]));
    }
  });

  test('of ranges is that of the whole', async () => {
    expect(await steps(spec, [0, 2, 14, 34, size])).toEqual(history);
  });
});

describe('hidden matrices', () => {
  const namesOf = (model: ModelSpec) => {
    const { slots } = modelLayout(model);
    return hiddenMatrices(model).map(({ from, to, rows, columns, abreast }) => {
      const slot = slots.find(({ offset }) => offset === from)!;
      expect(to - from).toBe(slot.size);
      return `${slot.name} ${rows} ${columns} ${abreast}`;
    });
  };

  test('of gpt: all of its blocks, queries, keys and values apart; no embedding, no head', () => {
    expect(namesOf(tinyGpt)).toEqual(
      [0, 1].flatMap((i) => [
        `blocks.${i}.attention.output.weight 4 4 1`,
        `blocks.${i}.attention.qkv.weight 4 12 3`,
        `blocks.${i}.feedforward.hidden.weight 4 8 1`,
        `blocks.${i}.feedforward.output.weight 8 4 1`,
      ]),
    );
  });

  test('of mlp: all layers but the last; of linear: none, which leaves AdamW', () => {
    expect(namesOf({ architecture: 'mlp', features: 3, hidden: [5] })).toEqual([
      'mlp.hidden.weight 5 3 1',
    ]);
    expect(namesOf({ architecture: 'mlp', features: 3, hidden: [5, 2] })).toEqual([
      'mlp.hidden.0.weight 5 3 1',
      'mlp.hidden.1.weight 2 5 1',
    ]);
    const linear = { architecture: 'linear', features: 3 } as const;
    expect(namesOf(linear)).toEqual([]);
    const [ours, theirs] = [muonSpec, adamwSpec].map((by) => compileTraining(linear, by, 2));
    expect(ours!.loop()).toEqual(theirs!.loop());
    expect(ours!.updates(2)).toEqual(theirs!.updates(2));
  });
});

/** Loss after 200 steps of an mlp that learns the product of two numbers, at the best of several rates. */
async function lowestLoss(optimizer: OptimizerSpec, rates: readonly number[]): Promise<number> {
  const model = { architecture: 'mlp', features: 2, hidden: [16, 16] } as const;
  const inputs = noise(512, 3);
  const targets = Array.from({ length: 256 }, (_, i) => inputs[2 * i]! * inputs[2 * i + 1]!);
  const batch = 16;
  const count = 200;
  const drawn = { key: deriveKey('muon'), round: 0, firstStep: 0, steps: count, batch, bound: 256 };
  const ends = rates.map(async (learningRate) => {
    const program = compileTraining(
      model,
      { ...optimizer, schedule: constantRate(learningRate) },
      batch,
    );
    const run = await load(program.loop());
    const params = initialParameters(model, 1);
    const { moments, rateCount } = program.optimizer;
    const vector = (elements: ArrayLike<number>) =>
      ({ dtype: 'f32', shape: [elements.length], elements }) as const;
    const { losses } = await run({
      steps: { dtype: 'i64', shape: [], elements: [count] },
      params: vector(params),
      ...Object.fromEntries(moments.map((name) => [name, vector(params.map(() => 0))])),
      rates: {
        dtype: 'f32',
        shape: [count, rateCount],
        elements: Array.from({ length: count }, (_, t) => program.optimizer.rates(t, t)).flat(),
      },
      rows: { dtype: 'i32', shape: [count, batch], elements: drawRows(drawn) },
      inputs: { dtype: 'f32', shape: [256, 2], elements: inputs },
      targets: vector(targets),
    });
    return losses!.slice(-10).reduce((sum, loss) => sum + loss / 10, 0);
  });
  const losses = await Promise.all(ends);
  return Math.min(...losses.filter(Number.isFinite));
}

test('learns faster than sgd at its best rate', async () => {
  const sgd = await lowestLoss(
    { optimizer: 'sgd', clipNorm: 1, schedule: constantRate(1) },
    [0.03, 0.1, 0.3, 1],
  );
  const muon = await lowestLoss(muonSpec, [0.005]);
  expect(muon).toBeLessThan(sgd / 2);
});
