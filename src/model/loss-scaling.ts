/**
 * Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740, section 3.2), for steps whose products are in f16: backward goes through the loss
 * times a scale, so that small gradients do not vanish below what f16 has. A step whose gradient is not finite is not taken, and the scale is
 * halved; after many good ones in a row it is doubled. Its state is two numbers: the scale, and how many good steps there were since it changed.
 * bf16 has the range of f32, and needs none of this.
 */
import type { Graph } from './graph/builder.ts';
import { next } from './graph/loop.ts';
import type { Value } from './graph/value.ts';
import { add, constantLike, less, mul, reshape, slice, where } from './graph/verbs.ts';

const FIRST_SCALE = 65_536;
/** Good steps in a row after which more is tried. */
const PATIENCE = 2000;
/** Sums of squares from here on are of no gradient. */
const MOST = 3e38;
/** What is infinite at this scale is none of the scale's doing. */
const LEAST_SCALE = 2 ** -14;

/** Name of the state, and what it starts from. */
export const scalingState = {
  name: 'scaling',
  first: (): Float32Array => Float32Array.of(FIRST_SCALE, 0),
} as const;

/** Whether halving has not helped. */
export const hasGivenUp = ([scale]: Float32Array): boolean => scale! < LEAST_SCALE;

export interface Scaling {
  /** What the loss of this step is multiplied with. */
  readonly scale: Value;
  /** Whether a gradient with this sum of squares counts; the state after it is an output of the graph. */
  outputNext(squares: Value): Value;
}

/** The scaling of a step, in the graph that takes it. */
export function openScaling(graph: Graph): Scaling {
  const { name } = scalingState;
  const scaling = graph.input(name, { dtype: 'f32', shape: [2] });
  const pair = (scale: number, count: number) => constantLike(scaling, [2], [scale, count]);
  return {
    scale: reshape(slice(scaling, 0, 0, 1), []),
    outputNext(squares) {
      // false for what is no number, too
      const counts = less(squares, MOST);
      const isPatient = less(slice(scaling, 0, 1, 2), PATIENCE - 1);
      const good = where(isPatient, add(scaling, pair(0, 1)), mul(scaling, pair(2, 0)));
      graph.output(next(name), where(counts, good, mul(scaling, pair(0.5, 0))));
      return counts;
    },
  };
}
