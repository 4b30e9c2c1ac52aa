/** Settings, packings and spec features that nostrain 0.1.0 had and this version does not, with what to use instead. */

/** The packing to take instead of a removed one. */
export const removedPackings: ReadonlyMap<string, string> = new Map([
  ['sign', 'ternary'],
  ['topk-int8', 'topk-sign'],
  ['topk-q2', 'topk-sign'],
  ['range', 'scaled'],
]);

/** Settings in files of earlier runs: `false` is dropped, any other value is refused with this hint. */
export const removedSettings: ReadonlyMap<string, string> = new Map([
  ['overlap', 'leave "overlap" out: workers take all inner steps after the outcome of a round'],
]);

/** Features of specs that no run can use anymore, with what to do. */
export const removedFeatures: ReadonlyMap<string, string> = new Map([
  ['overlap', 'create the run without it; nostrain 0.1.0 still plays and replays this one'],
]);
