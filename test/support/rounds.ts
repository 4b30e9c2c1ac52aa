/** Rounds of several workers on one linear model, without a network: the worker's own deltas, payloads, mean and outer step. */
import { philox, unit } from 'nostrain/base';
import { nesterovStep } from 'nostrain/consensus';
import { encodeNstr } from 'nostrain/python/parts';
import type { ResidualRule } from 'nostrain/run';
import { createLayout, partialOf, type Vector } from 'nostrain/tensor';
import { deltaOf, takeSent } from 'nostrain/worker';
import { contribution } from './contributions.ts';
import { meanDelta } from './mean.ts';

const WORKERS = 4;
const FEATURES = 400;
/** Of each worker. */
const EXAMPLES = 1024;
const layout = createLayout([{ name: 'w', shape: [FEATURES] }]);
const uniform = (key: number, i: number): number => 2 * unit(philox([key, 17], i, 0, 0, 0)[0]) - 1;
const truth = Float64Array.from({ length: FEATURES }, (_, i) => uniform(0, i));

export interface Recipe {
  /** Share of the values sent, the largest ones. */
  readonly ratio: number;
  readonly residual: ResidualRule;
  readonly innerSteps: number;
  readonly learningRate: number;
}

export interface Played {
  /** The largest difference of any parameter to the truth. */
  readonly error: number;
  /** Mean share of energy that was not sent. */
  readonly residualShare: number;
}

/** Examples of one worker, (EXAMPLES, FEATURES), and their targets. */
const shards = Array.from({ length: WORKERS }, (_, worker) => {
  const inputs = new Float64Array(EXAMPLES * FEATURES);
  for (let i = 0; i < inputs.length; i += 4) {
    const draws = philox([worker + 1, 3], i, 0, 0, 0);
    for (let j = 0; j < 4; j++) inputs[i + j] = 2 * unit(draws[j]!) - 1;
  }
  return inputs;
});

/** H steps of gradient descent on the squared error of one example each; the targets are without noise. */
function train(start: Float32Array, worker: number, round: number, recipe: Recipe): Float32Array {
  const { innerSteps, learningRate } = recipe;
  const w = Float32Array.from(start);
  const inputs = shards[worker]!;
  for (let step = 0; step < innerSteps; step++) {
    const at = ((round * innerSteps + step) % EXAMPLES) * FEATURES;
    let error = 0;
    for (let i = 0; i < FEATURES; i++) error += (w[i]! - truth[i]!) * inputs[at + i]!;
    const factor = 2 * learningRate * error;
    for (let i = 0; i < FEATURES; i++) w[i] = w[i]! - factor * inputs[at + i]!;
  }
  return w;
}

/** Plays so many rounds, or fewer when the error is down to `until`. */
export function playRounds(recipe: Recipe, rounds: number, until: number): readonly Played[] {
  const { ratio, residual: rule } = recipe;
  const names = Array.from({ length: WORKERS }, (_, i) => `${i}`.repeat(64));
  let params: Vector = new Float32Array(FEATURES);
  let momentum: Vector = new Float32Array(FEATURES);
  const residuals: Float64Array[] = names.map(() => new Float64Array(FEATURES));
  const played: Played[] = [];
  for (let round = 0; round < rounds; round++) {
    const kept = names.map((worker, i) => {
      const after = train(Float32Array.from(params), i, round, recipe);
      const delta = deltaOf(params, after, residuals[i]!, rule);
      const sent = partialOf(encodeNstr({ layout, values: delta }, { ratio }).sent);
      const { residual, share } = takeSent(delta, sent, rule);
      residuals[i] = residual;
      return { share, cohort: contribution(worker, [], { delta: sent }) };
    });
    const mean = meanDelta(
      kept.map(({ cohort }) => cohort),
      { size: FEATURES, weights: 'equal', cap: 1, normalize: 'workers' },
    );
    const next = nesterovStep(params, momentum, mean, { learningRate: 1, momentum: 0 });
    params = next.values;
    momentum = next.momentum;
    let error = 0;
    for (let i = 0; i < FEATURES; i++) error = Math.max(error, Math.abs(params[i]! - truth[i]!));
    played.push({
      error,
      residualShare: kept.reduce((sum, { share }) => sum + share, 0) / WORKERS,
    });
    if (error <= until) break;
  }
  return played;
}
