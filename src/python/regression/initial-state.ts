/** The initial states of the Python reference's two regression models, to the bit. */
import { ConfigError } from '../../base/errors.ts';
import { linearLayout, mlpLayout } from '../../formats/regression-state.ts';
import type { RegressionTask } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import { createMersenneTwister } from './mersenne-twister.ts';

/** What `initializeMlpRegressionState` takes. */
export interface MlpStateOptions {
  /** Inputs of an example. */
  readonly features: number;
  /** Width of the hidden layer. */
  readonly hiddenSize: number;
  /** Any whole number; its sign does not matter. Default 0. */
  readonly seed?: number | bigint;
  /** Largest weight of a layer with one input; default 0.1. */
  readonly weightScale?: number;
}

/** What `initializeTrainingState` takes. */
export interface InitialStateOptions extends Omit<MlpStateOptions, 'hiddenSize'> {
  /** `mlp-regression` needs it. */
  readonly hiddenSize?: number | undefined;
}

/**
 * Where a regression starts: `linearState` or `mlpState`. Throws a ConfigError when an mlp has no hidden size, or for a state
 * beyond 2^28 values.
 *
 * @example
 * ```ts
 * import { initializeTrainingState } from 'nostrain/python';
 *
 * const state = initializeTrainingState('mlp-regression', { features: 3, hiddenSize: 8 });
 * state.layout.size; // => 8 + 8 * 3 + 1 + 8
 * ```
 */
export function initialState(
  runtime: RegressionTask,
  { hiddenSize, ...options }: InitialStateOptions,
): Params {
  if (runtime === 'linear-regression') return linearState(options.features);
  if (hiddenSize !== undefined) return mlpState({ ...options, hiddenSize });
  throw new ConfigError('state/hidden-size', 'mlp-regression needs a hidden size', {
    hint: 'for example 8',
  });
}

/**
 * A linear regression's state, all zeros, f64: `linear.bias` (1) and `linear.weight` (1, features). Throws a ConfigError beyond
 * 2^28 features.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState } from 'nostrain/python';
 *
 * initializeLinearRegressionState(3).values; // => new Float64Array(4)
 * ```
 */
export function linearState(features: number): Params {
  requireSizes({ features });
  const layout = linearLayout(features);
  return { layout, values: new Float64Array(layout.size) };
}

/**
 * The state of a tanh layer and one output, f64, to the bit the Python reference's: `mlp.hidden.bias` (H), `mlp.hidden.weight`
 * (H, features), `mlp.output.bias` (1), `mlp.output.weight` (1, H). Weights are uniform, from Python's generator, hidden ones
 * first; biases are zero. Throws a ConfigError beyond 2^28 values.
 *
 * @example
 * ```ts
 * import { initializeMlpRegressionState, stateDigest } from 'nostrain/python';
 *
 * const state = initializeMlpRegressionState({ features: 2, hiddenSize: 3, seed: 7 });
 * stateDigest(state).slice(0, 8); // => '212b1d48'
 * ```
 */
export function mlpState({
  features,
  hiddenSize,
  seed = 0,
  weightScale = 0.1,
}: MlpStateOptions): Params {
  requireSizes({ features, hiddenSize });
  const layout = mlpLayout(features, hiddenSize);
  const values = new Float64Array(layout.size);
  const draw = createMersenneTwister(seed);
  const fill = (slot: number, scale: number) => {
    const { offset, size } = layout.slots[slot]!;
    for (let i = 0; i < size; i++) values[offset + i] = -scale + (scale + scale) * draw();
  };
  fill(1, weightScale / Math.max(1, Math.sqrt(features)));
  fill(3, weightScale / Math.max(1, Math.sqrt(hiddenSize)));
  return { layout, values };
}

/** More values than this are a slip of the hand. */
const MAX_VALUES = 2 ** 28;

function requireSizes(sizes: Readonly<Record<string, number>>): void {
  const all = Object.values(sizes);
  if (all.reduce((product, size) => product * size, 1) <= MAX_VALUES) return;
  const words = Object.entries(sizes).map(([name, size]) => `${name} ${size}`);
  throw new ConfigError('state/size', `${words.join(' x ')} is more than a state can hold here`);
}
