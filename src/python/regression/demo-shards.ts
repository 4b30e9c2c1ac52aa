/**
 * The examples of the Python reference's linear demo: four shards of 32, each from another region, with normal noise of 0.3 on
 * y = 3 x1 - 1.5 x2 + 0.5 x3 + 1. All numbers have four decimals.
 */
import { linearTruth, type RegressionDataset } from '../../model/data/regression.ts';

/** From where to where the inputs of each shard lie. */
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

/** Shard 0 to 3. */
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

/** The linear congruential generator of the C standard, as draws from 0 to 1. */
function createDraws(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & MODULUS;
    return state / MODULUS;
  };
}

const fourDecimals = (value: number): number => Number(value.toFixed(4));
