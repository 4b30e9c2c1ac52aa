/**
 * Creates the initial states of the Python reference's two regression models, bit for bit. Weights come from MT19937
 * (Matsumoto and Nishimura 1998), seeded and read like CPython's random.Random(seed).
 */
import { ConfigError } from '../../base/errors.ts';
import { linearLayout, mlpLayout } from '../../formats/regression-state.ts';
import type { RegressionTask } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';

/** Options of `initializeMlpRegressionState`. */
export interface MlpStateOptions {
  /** Number of inputs of an example. */
  readonly features: number;
  /** Width of the hidden layer. */
  readonly hiddenSize: number;
  /** Random seed, any integer; its sign does not matter. Default 0. */
  readonly seed?: number | bigint;
  /** Largest initial weight of a layer with one input; default 0.1. */
  readonly weightScale?: number;
}

/** Options of `initializeTrainingState`. */
export interface InitialStateOptions extends Omit<MlpStateOptions, 'hiddenSize'> {
  /** Width of the hidden layer; required for `mlp-regression`. */
  readonly hiddenSize?: number | undefined;
}

/**
 * Returns the initial state of either model. Throws a ConfigError if an mlp has no hidden size, or for more than 2^28
 * values.
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
 * Returns the initial state of a linear regression, all zeros, f64: `linear.bias` (1), `linear.weight` (1, features).
 * Throws a ConfigError for more than 2^28 values.
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
 * Returns the initial state of a tanh layer and one output, f64, bit for bit as the Python reference: `mlp.hidden.bias`
 * (H), `mlp.hidden.weight` (H, features), `mlp.output.bias` (1), `mlp.output.weight` (1, H). Weights are uniform,
 * hidden ones drawn first; biases are zero. Throws a ConfigError for more than 2^28 values.
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

/** Maximum number of values of a state; more are a typing mistake. */
const MAX_VALUES = 2 ** 28;

function requireSizes(sizes: Readonly<Record<string, number>>): void {
  const all = Object.values(sizes);
  if (all.reduce((product, size) => product * size, 1) <= MAX_VALUES) return;
  const words = Object.entries(sizes).map(([name, size]) => `${name} ${size}`);
  throw new ConfigError(
    'state/size',
    `${words.join(' x ')} is more than the 2^28 values of a state`,
  );
}

/** Parameters n and m of MT19937. */
const SIZE = 624;
const SHIFT = 397;

/** Creates a generator of doubles in [0, 1) with 53 random bits each. */
export function createMersenneTwister(seed: number | bigint): () => number {
  const state = seeded(keyOf(seed));
  let at = SIZE;
  const next = (): number => {
    if (at === SIZE) {
      twist(state);
      at = 0;
    }
    let y = state[at++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  };
  return () => {
    const high = next() >>> 5;
    const low = next() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  };
}

/** Returns |seed| as 32-bit words, least significant first. */
function keyOf(seed: number | bigint): number[] {
  const words: number[] = [];
  let rest = BigInt(seed);
  if (rest < 0n) rest = -rest;
  do {
    words.push(Number(rest & 0xffffffffn));
    rest >>= 32n;
  } while (rest > 0n);
  return words;
}

function seeded(key: readonly number[]): Uint32Array {
  const state = new Uint32Array(SIZE);
  state[0] = 19650218;
  for (let i = 1; i < SIZE; i++) state[i] = mixed(state, i, 1812433253) + i;
  let i = 1;
  const wrap = () => {
    if (++i < SIZE) return;
    state[0] = state[SIZE - 1]!;
    i = 1;
  };
  for (let k = 0; k < Math.max(SIZE, key.length); k++) {
    const j = k % key.length;
    state[i] = (state[i]! ^ mixed(state, i, 1664525)) + key[j]! + j;
    wrap();
  }
  for (let k = 0; k < SIZE - 1; k++) {
    state[i] = (state[i]! ^ mixed(state, i, 1566083941)) - i;
    wrap();
  }
  state[0] = 0x80000000;
  return state;
}

const mixed = (state: Uint32Array, i: number, factor: number): number =>
  Math.imul(factor, state[i - 1]! ^ (state[i - 1]! >>> 30)) >>> 0;

function twist(state: Uint32Array): void {
  for (let i = 0; i < SIZE; i++) {
    const y = (state[i]! & 0x80000000) | (state[(i + 1) % SIZE]! & 0x7fffffff);
    state[i] = state[(i + SHIFT) % SIZE]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
  }
}
