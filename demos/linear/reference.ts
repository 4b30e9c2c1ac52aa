/**
 * The linear demo of the Python reference (`demo linear --reference`): its data and settings, and a comparison of the
 * trained model with least squares over all examples.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, type RegressionDataset, type RegressionSet } from 'nostrain';
import { formatStateJson } from 'nostrain/python';
import { utf8 } from '../../src/base/bytes.ts';
import { sha256Hex } from '../../src/base/hash.ts';
import { readModel } from '../../src/formats/regression-state.ts';
import { linearTruth } from '../../src/model/data/regression.ts';
import { readStateFile } from '../../src/node/files/state-file.ts';
import { linearState } from '../../src/python/regression/initial-state.ts';
import type { DemoFlags } from '../shared/stage.ts';
import { asFlags, type WorkerProcess } from '../shared/swarm.ts';
import type { Extent } from '../train/extent.ts';

const STATE = 'state.json';
const shardFile = (index: number): string => `shard_${index + 1}.json`;
const shards = () => Array.from({ length: REFERENCE_SHARDS }, (_, i) => referenceShard(i));

/** Throws a ConfigError if other flags contradict --reference. */
export function assertReferenceDemo(name: string, flags: DemoFlags): void {
  const { workers = REFERENCE_SHARDS, profile, settings, quick, long } = flags;
  const odd = profile !== undefined || settings !== undefined || quick || long;
  if (name === 'linear' && workers === REFERENCE_SHARDS && !odd) return;
  throw new ConfigError(
    'flag/reference',
    `--reference is the unchanged linear demo with ${REFERENCE_SHARDS} workers`,
    { hint: 'nostrain demo linear --reference' },
  );
}

/** Writes the four shards and the zero state that all workers start from. */
export async function referenceExamples(dir: string): Promise<{
  readonly name: string;
  readonly sha256: string;
  readonly bytes: number;
}> {
  await mkdir(dir, { recursive: true });
  const texts = shards().map((shard) => `${JSON.stringify(datasetJson(shard), null, 2)}\n`);
  for (const [i, text] of texts.entries()) await writeFile(join(dir, shardFile(i)), text);
  await writeFile(join(dir, STATE), formatStateJson(linearState(3)));
  const all = utf8(texts.join(''));
  const name = 'the shards of the reference: y = 3x1 - 1.5x2 + 0.5x3 + 1, noise 0.3';
  return { name, sha256: sha256Hex(all), bytes: all.length };
}

const datasetJson = ({ size, features, inputs, targets }: RegressionSet) => ({
  task: 'linear-regression',
  examples: Array.from({ length: size }, (_, row) => ({
    inputs: [...inputs.subarray(row * features, (row + 1) * features)],
    target: targets[row],
  })),
});

interface ReferenceOptions extends Extent {
  readonly dir: string;
  readonly relays: readonly string[];
}

/** Returns one worker's process with the Python reference's settings, and a wait for all four workers. */
export function referenceWorker(
  name: string,
  index: number,
  options: ReferenceOptions,
): WorkerProcess {
  const { dir, relays, workers, rounds, innerSteps } = options;
  const flags = asFlags({
    run: 'demo-reference',
    keyFile: join(dir, name, 'key'),
    rounds,
    innerSteps,
    localLearningRate: 0.03,
    batchSize: 4,
    outerLearningRate: 0.7,
    momentum: 0.9,
    topk: 1,
    sync: `strict:${workers}`,
    roundTimeout: 60,
    heartbeatInterval: 10,
    report: 'ndjson',
    output: join(dir, name, STATE),
    relay: relays,
  });
  const files = [join(dir, STATE), join(dir, shardFile(index))];
  return { name, args: ['run-training', ...files, ...flags] };
}

/** A linear model, and its largest parameter differences to other models. */
export interface LinearResult {
  readonly weights: readonly number[];
  readonly bias: number;
  readonly errorToTruth: number;
  /** Difference to the least squares of all examples, the best possible fit. */
  readonly errorToLeastSquares: number;
  readonly leastSquaresToTruth: number;
}

/** Returns the model in a worker's folder; undefined if the worker did not finish. */
export async function referenceResult(folder: string): Promise<LinearResult | undefined> {
  const params = await readStateFile(join(folder, STATE)).catch(() => undefined);
  const model = params && readModel(params);
  if (model?.runtime !== 'linear-regression') return undefined;
  const fit = { weights: [...model.weight], bias: model.bias[0]! };
  const best = leastSquares(shards());
  return {
    ...fit,
    errorToTruth: largestDifference(fit, linearTruth),
    errorToLeastSquares: largestDifference(fit, best),
    leastSquaresToTruth: largestDifference(best, linearTruth),
  };
}

export function referenceWords(result: LinearResult): readonly string[] {
  const weights = result.weights.map((weight) => weight.toFixed(3)).join(', ');
  const [truth, best, least] = [
    result.errorToTruth,
    result.errorToLeastSquares,
    result.leastSquaresToTruth,
  ];
  return [
    `found w = [${weights}], b = ${result.bias.toFixed(3)}`,
    `the largest parameter error is ${truth.toFixed(3)} from the truth, ${best.toFixed(3)} from ` +
      `the least squares of all examples (which themselves are ${least.toFixed(3)} off)`,
  ];
}

/** Range of the inputs of each shard. */
const REGIONS = [
  [-2, 0],
  [0, 2],
  [-1, 1],
  [1, 3],
] as const;

export const REFERENCE_SHARDS = REGIONS.length;
const SIZE = 32;
const NOISE = 0.3;
const MODULUS = 0x7fff_ffff;

export function referenceShard(index: number): RegressionDataset {
  const region = REGIONS[index];
  if (!region) throw new RangeError(`there is no shard ${index}`);
  const [from, to] = region;
  const { weights, bias } = linearTruth;
  const features = weights.length;
  const draw = createDraws(42 + 10_000 * index);
  const inputs = new Float64Array(SIZE * features);
  const targets = new Float64Array(SIZE);
  for (let row = 0; row < SIZE; row++) {
    let target: number = bias;
    for (let i = 0; i < features; i++) {
      const x = fourDecimals(from + draw() * (to - from));
      inputs[row * features + i] = x;
      target += weights[i]! * x;
    }
    const radius = Math.sqrt(-2 * Math.log(Math.max(draw(), 1e-10)));
    targets[row] = fourDecimals(target + radius * Math.cos(2 * Math.PI * draw()) * NOISE);
  }
  return { task: 'linear-regression', size: SIZE, features, inputs, targets };
}

/** Returns draws from 0 to 1 by the linear congruential generator of the C standard. */
function createDraws(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & MODULUS;
    return state / MODULUS;
  };
}

const fourDecimals = (value: number): number => Number(value.toFixed(4));

export interface LinearFit {
  /** (F) */
  readonly weights: readonly number[];
  readonly bias: number;
}

/** Returns the least squares fit over all sets, by the normal equations. Throws a RangeError if it is not unique. */
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

/** Solves linear equations by Gauss-Jordan elimination with partial pivoting. */
function solve(rows: Float64Array[]): number[] {
  const width = rows.length;
  for (let column = 0; column < width; column++) {
    const size = (row: Float64Array) => Math.abs(row[column]!);
    const below = rows.slice(column).reduce((a, b) => (size(b) > size(a) ? b : a));
    if (size(below) < 1e-12) throw new RangeError('the examples have more than one best fit');
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

/** Returns the largest difference of a parameter between two models. */
export const largestDifference = (a: LinearFit, b: LinearFit): number =>
  Math.max(
    ...a.weights.map((weight, i) => Math.abs(weight - b.weights[i]!)),
    Math.abs(a.bias - b.bias),
  );
