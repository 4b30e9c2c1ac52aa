/** Which rows each step trains on: drawn by counter, so that anybody with the key can recompute any step alone. */
import { below, type Key, philox } from '../base/rng.ts';

export interface Draw {
  /** Of this worker's stream: `deriveKey(..., seed, worker)`. */
  readonly key: Key;
  readonly round: number;
  /** Within the round, from 0. */
  readonly firstStep: number;
  readonly steps: number;
  /** Rows per step. */
  readonly batch: number;
  /** Rows are numbers in [0, bound). */
  readonly bound: number;
}

/** Row numbers of consecutive steps, step after step: uniform, with replacement. */
export function drawRows({ key, round, firstStep, steps, batch, bound }: Draw): Int32Array {
  const rows = new Int32Array(steps * batch);
  for (let step = 0; step < steps; step++) {
    for (let at = 0; at < batch; at += 4) {
      const words = philox(key, round, firstStep + step, at / 4, 0);
      for (let i = 0; i < 4 && at + i < batch; i++) {
        rows[step * batch + at + i] = below(words[i]!, bound);
      }
    }
  }
  return rows;
}

/** `count` of the row numbers 0, stride, 2 stride, ... below `bound`, evenly spaced; all of them when they are fewer. */
export function evenRows(bound: number, stride: number, count: number): Int32Array {
  const available = Math.floor((bound + stride - 1) / stride);
  const taken = Math.min(available, count);
  return Int32Array.from({ length: taken }, (_, i) => Math.floor((i * available) / taken) * stride);
}
