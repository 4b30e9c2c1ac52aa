/** The trainer of a helper: it takes and returns full-model values, and trains a small tier and one more slice. */
import type { Layout, Vector } from '../tensor/params.ts';
import type { Range } from '../tensor/partial-vector.ts';
import type { EngineTrainer } from './trainer.ts';

interface HelperLayout {
  /** Layout of the full model. */
  readonly layout: Layout;
  /** Number of values in the helper's tier, which come first in the full model. */
  readonly tierEnd: number;
  /** Returns the range of the extra slice of a round. */
  sliceRange(round: number): Range;
}

/** Wraps the trainer of the narrower model as one of the full model. It evaluates and samples with the tier alone. */
export function helperTrainer(
  narrow: EngineTrainer,
  { layout, tierEnd, sliceRange }: HelperLayout,
): EngineTrainer {
  const gather = (values: Vector, slice?: Range): Float32Array => {
    const part = new Float32Array(narrow.layout.size);
    part.set(values.subarray(0, tierEnd));
    if (slice) part.set(values.subarray(slice.from, slice.to), tierEnd);
    return part;
  };
  const scatter = (into: Vector, part: Vector, { from, to }: Range): Float32Array => {
    const all = Float32Array.from(into);
    all.set(part.subarray(0, tierEnd));
    all.set(part.subarray(tierEnd, tierEnd + to - from), from);
    return all;
  };
  const isFull = (moment: Float32Array) => moment.length === layout.size;
  return {
    ...narrow,
    layout,
    async train({ keeping: _, ...task }, onProgress, signal) {
      const slice = sliceRange(task.round);
      const moments = task.moments.map((each) => (isFull(each) ? gather(each, slice) : each));
      const params = gather(task.params, slice);
      const trained = await narrow.train({ ...task, params, moments }, onProgress, signal);
      return {
        ...trained,
        params: scatter(task.params, trained.params, slice),
        moments: trained.moments.map((each, i) =>
          each.length === narrow.layout.size
            ? scatter(task.moments[i] ?? new Float32Array(layout.size), each, slice)
            : each,
        ),
      };
    },
    evaluate: (params, ...rest) => narrow.evaluate(gather(params), ...rest),
    ...(narrow.accuracy && {
      accuracy: (params, ...rest) => narrow.accuracy!(gather(params), ...rest),
    }),
    ...(narrow.measure && {
      measure: (params, ...rest) => narrow.measure!(gather(params), ...rest),
    }),
    predict: (params, inputs) => narrow.predict(gather(params), inputs),
    sample: (params, ...rest) => narrow.sample(gather(params), ...rest),
  };
}
