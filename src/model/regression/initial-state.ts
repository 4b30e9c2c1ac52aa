/** The initial states of the Python reference's two regression models, to the bit. */
import { ConfigError } from '../../base/errors.ts';
import { createMersenneTwister } from '../../base/mersenne-twister.ts';
import type { Params } from '../../tensor/params.ts';
import { linearLayout, mlpLayout } from './layout.ts';

export interface MlpStateOptions {
  readonly features: number;
  readonly hiddenSize: number;
  /** Any whole number; its sign does not matter. */
  readonly seed: number | bigint;
  /** Largest weight of a layer with one input. */
  readonly weightScale: number;
}

/** All zeros. */
export function linearState(features: number): Params {
  requireSizes({ features });
  const layout = linearLayout(features);
  return { layout, values: new Float64Array(layout.size) };
}

/** Uniform weights, hidden ones first; the biases are zero. */
export function mlpState({ features, hiddenSize, seed, weightScale }: MlpStateOptions): Params {
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
