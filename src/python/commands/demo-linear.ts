/** `demo linear --reference`: the demo of the Python reference, its data and settings, and what it finds beside the best there is. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { readModel } from '../../formats/regression-state.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import { linearTruth, type RegressionSet } from '../../model/data/regression.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { REFERENCE_SHARDS, referenceShard } from '../regression/demo-shards.ts';
import { linearState } from '../regression/initial-state.ts';
import { largestDifference, leastSquares } from '../regression/least-squares.ts';

const STATE = 'state.json';
const shardFile = (index: number): string => `shard_${index + 1}.json`;
const shards = () => Array.from({ length: REFERENCE_SHARDS }, (_, i) => referenceShard(i));

interface Asked {
  readonly workers?: number;
  readonly profile?: string;
  readonly settings?: string;
  readonly quick?: boolean;
  readonly long?: boolean;
}

/** Throws where something else is asked for as well. */
export function assertReferenceDemo(name: string, flags: Asked): void {
  const { workers = REFERENCE_SHARDS, profile, settings, quick, long } = flags;
  const odd = profile !== undefined || settings !== undefined || quick || long;
  if (name === 'linear' && workers === REFERENCE_SHARDS && !odd) return;
  throw new ConfigError(
    'flag/reference',
    `--reference is the linear demo with ${REFERENCE_SHARDS} workers as it is`,
    { hint: 'nostrain demo linear --reference' },
  );
}

/** Writes the four shards and the state of zeros that all start from. */
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

interface Place {
  readonly dir: string;
  readonly relays: readonly string[];
  readonly workers: number;
  readonly rounds: number;
  readonly innerSteps: number;
}

/** One worker's command line: the Python reference's settings; only the wait for all four is ours. */
export const referenceWorker = (name: string, index: number, place: Place) => ({
  name,
  args: [
    'run-training',
    join(place.dir, STATE),
    join(place.dir, shardFile(index)),
    '--run',
    'demo-reference',
    '--key-file',
    join(place.dir, name, 'key'),
    '--rounds',
    `${place.rounds}`,
    '--inner-steps',
    `${place.innerSteps}`,
    '--local-learning-rate',
    '0.03',
    '--batch-size',
    '4',
    '--outer-learning-rate',
    '0.7',
    '--momentum',
    '0.9',
    '--topk',
    '1',
    '--sync',
    `strict:${place.workers}`,
    '--round-timeout',
    '60',
    '--heartbeat-interval',
    '10',
    '--report',
    'ndjson',
    '-o',
    join(place.dir, name, STATE),
    ...place.relays.flatMap((url) => ['--relay', url]),
  ],
});

/** A linear model, and how far its furthest parameter is from that of others. */
export interface FoundModel {
  readonly weights: readonly number[];
  readonly bias: number;
  readonly errorToTruth: number;
  /** To the least squares of all examples together, the best that can be found in them. */
  readonly errorToLeastSquares: number;
  readonly leastSquaresToTruth: number;
}

/** The model in a worker's folder; undefined where it did not come to an end. */
export async function referenceResult(folder: string): Promise<FoundModel | undefined> {
  const params = await readStateFile(join(folder, STATE)).catch(() => undefined);
  const model = params && readModel(params);
  if (model?.runtime !== 'linear-regression') return undefined;
  const found = { weights: [...model.weight], bias: model.bias[0]! };
  const best = leastSquares(shards());
  return {
    ...found,
    errorToTruth: largestDifference(found, linearTruth),
    errorToLeastSquares: largestDifference(found, best),
    leastSquaresToTruth: largestDifference(best, linearTruth),
  };
}

/** What was found, for people. */
export function referenceWords(found: FoundModel): readonly string[] {
  const weights = found.weights.map((weight) => weight.toFixed(3)).join(', ');
  const [truth, best, least] = [
    found.errorToTruth,
    found.errorToLeastSquares,
    found.leastSquaresToTruth,
  ];
  return [
    `found w = [${weights}], b = ${found.bias.toFixed(3)}`,
    `the furthest parameter is ${truth.toFixed(3)} from the truth, ${best.toFixed(3)} from the least squares of all examples (which are ${least.toFixed(3)} off themselves)`,
  ];
}
