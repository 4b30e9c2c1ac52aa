/** Regression data: synthetic samples of a linear function, in shards, and the dataset JSON of the Python reference. */

import { ConfigError } from '../../base/errors.ts';
import { deriveKey, philox, unit } from '../../base/rng.ts';
import { isObject } from '../../base/shape.ts';
import type { Shard } from '../../run/field.ts';

/** The regression models of the Python reference, by their name in its documents. */
export type RegressionTask = 'linear-regression' | 'mlp-regression';

/** Examples of a regression, in row-major order. */
export interface RegressionSet {
  /** Number of examples. */
  readonly size: number;
  readonly features: number;
  /** (size, features), row by row. */
  readonly inputs: Float64Array;
  /** (size) */
  readonly targets: Float64Array;
}

/** Examples in f32, for graphs. */
export interface RowSet {
  readonly inputs: Float32Array;
  readonly targets: Float32Array;
}

/** Converts examples to f32. */
export const asRows = ({ inputs, targets }: RegressionSet): RowSet => ({
  inputs: Float32Array.from(inputs),
  targets: Float32Array.from(targets),
});

/** A parsed dataset: examples of a regression, and its task. */
export interface RegressionDataset extends RegressionSet {
  /** Undefined if the file does not name it; the reference then assumes linear regression. */
  readonly task: RegressionTask | undefined;
}

/** The function behind the synthetic examples: y = 3 x1 - 1.5 x2 + 0.5 x3 + 1. */
export const linearTruth = { weights: [3, -1.5, 0.5], bias: 1 } as const;

export interface LinearExamplesOptions {
  readonly seed: number;
  readonly shard: Shard;
  /** Examples per shard. */
  readonly size?: number;
  /** Standard deviation of the noise on each target. */
  readonly noise?: number;
}

/** Returns the synthetic rows of a shard, and for validation those after the last shard. */
export function syntheticRows({ seed, shard }: Pick<LinearExamplesOptions, 'seed' | 'shard'>): {
  readonly rows: RegressionSet;
  readonly validation: RegressionSet;
} {
  const { count } = shard;
  const holdout = { index: count + 1, count: count + 1 };
  return {
    rows: linearExamples({ seed, shard }),
    validation: linearExamples({ seed, shard: holdout }),
  };
}

/** Standard deviation of the sum of four uniform draws. */
const FOUR_UNIFORM = Math.sqrt(4 / 12);

/** Generates a shard. Example i of shard k is draw (k - 1) * size + i of one stream, so shards never overlap. */
export function linearExamples(options: LinearExamplesOptions): RegressionSet {
  const { seed, shard, size = 256, noise = 0.05 } = options;
  const { weights, bias } = linearTruth;
  const key = deriveKey('nostrain linear examples', seed);
  const features = weights.length;
  const inputs = new Float64Array(size * features);
  const targets = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    const draw = (shard.index - 1) * size + i;
    const x = philox(key, draw, 0, 0, 0);
    const n = philox(key, draw, 1, 0, 0);
    let target: number = bias;
    for (let f = 0; f < features; f++) {
      const value = 2 * unit(x[f]!) - 1;
      inputs[i * features + f] = value;
      target += weights[f]! * value;
    }
    const normal = unit(n[0]) + unit(n[1]) + unit(n[2]) + unit(n[3]) - 2;
    targets[i] = target + (noise * normal) / FOUR_UNIFORM;
  }
  return { size, features, inputs, targets };
}

/** Every tenth row of a file is held out for validation, if the file has at least `FEWEST_TO_HOLD_OUT` rows. */
const HELD_OUT = 10;
const FEWEST_TO_HOLD_OUT = 20;

/** Deals the rows of a shared file to workers in turn. Returns a shard's rows and the held-out rows. */
export function dealRows(
  set: RegressionSet,
  { index, count }: Shard,
): { readonly rows: RegressionSet; readonly validation: RegressionSet | undefined } {
  const all = [...Array(set.size).keys()];
  const isHeldOut = (row: number) => set.size >= FEWEST_TO_HOLD_OUT && row % HELD_OUT === 9;
  const shardRows = all.filter((row) => !isHeldOut(row)).filter((_, i) => i % count === index - 1);
  if (shardRows.length === 0) {
    throw new ConfigError('data/dataset', `the dataset has no rows for shard ${index}/${count}`, {
      hint: 'use more rows, or fewer workers (--shard)',
    });
  }
  const holdout = all.filter(isHeldOut);
  const validation = holdout.length === 0 ? undefined : rowsOf(set, holdout);
  return { rows: rowsOf(set, shardRows), validation };
}

const rowsOf = ({ features, inputs, targets }: RegressionSet, rows: readonly number[]) => ({
  size: rows.length,
  features,
  inputs: Float64Array.from(
    rows.flatMap((row) => [...inputs.subarray(row * features, (row + 1) * features)]),
  ),
  targets: Float64Array.from(rows, (row) => targets[row]!),
});

/**
 * Validates a parsed dataset, `{"task", "examples": [{"inputs", "target"}]}`. Throws a ConfigError (`data/dataset`).
 *
 * @example
 * ```ts
 * import { parseRegressionDataset } from 'nostrain';
 *
 * const examples = [{ inputs: [1, 2], target: 3 }, { inputs: [4, 5], target: 6 }];
 * const dataset = parseRegressionDataset({ task: 'linear-regression', examples });
 * dataset.features; // => 2
 * dataset.inputs; // => Float64Array.of(1, 2, 4, 5)
 * ```
 */
export function parseRegressionDataset(json: unknown): RegressionDataset {
  if (!isObject(json)) throw wrong('', 'is not a JSON object');
  const task = parseTask(json.task);
  const { examples } = json;
  if (!Array.isArray(examples) || examples.length === 0) {
    throw wrong('examples', 'is not a list of at least one example');
  }
  const rows = examples.map((example, i) => parseExample(example, `examples[${i}]`));
  const features = rows[0]!.inputs.length;
  const odd = rows.findIndex(({ inputs }) => inputs.length !== features);
  if (odd >= 0) {
    const count = rows[odd]!.inputs.length;
    throw wrong(`examples[${odd}].inputs`, `has ${count} numbers where the first has ${features}`);
  }
  return {
    task,
    size: rows.length,
    features,
    inputs: Float64Array.from(rows.flatMap(({ inputs }) => inputs)),
    targets: Float64Array.from(rows, ({ target }) => target),
  };
}

function parseTask(task: unknown): RegressionTask | undefined {
  if (task === undefined) return undefined;
  const name = typeof task === 'string' ? task.trim().toLowerCase() : '';
  if (name === 'linear-regression' || name === 'mlp-regression') return name;
  throw wrong('task', `${JSON.stringify(task)} is neither linear-regression nor mlp-regression`);
}

function parseExample(example: unknown, at: string): { inputs: number[]; target: number } {
  if (!isObject(example)) throw wrong(at, 'is not an object with inputs and target');
  const { inputs, target } = example;
  if (!Array.isArray(inputs) || inputs.length === 0) {
    throw wrong(`${at}.inputs`, 'is not a list of at least one number');
  }
  return {
    inputs: inputs.map((value, i) => parseNumber(value, `${at}.inputs[${i}]`)),
    target: parseNumber(target, `${at}.target`),
  };
}

const DECIMAL = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** Parses a finite number or its decimal text; the reference accepts both. */
function parseNumber(value: unknown, at: string): number {
  const number = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw wrong(at, 'is not a finite number');
}

const wrong = (at: string, message: string): ConfigError =>
  new ConfigError('data/dataset', `dataset ${at === '' ? message : `${at} ${message}`}`, {
    hint:
      'the form is {"task": "linear-regression", "examples": [{"inputs": [1, 2], "target": ' +
      '3}]}',
    data: { at },
  });
