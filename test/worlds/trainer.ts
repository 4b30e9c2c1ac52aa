/**
 * Training without an engine: each part of an inner phase takes its time on the clock, and pulls the parameters to a
 * target, with noise that depends on shard, batches, round and parameter. The loss of a row is the distance to a point near it.
 */
import { type Clock, deriveKey, philox, unit } from 'nostrain/base';
import { drawRows } from 'nostrain/model';
import type { Layout } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';

/** Draws between -1 and 1, read from different places on. */
const NOISE = Float32Array.from({ length: 4096 }, (_, i) => {
  const [a, b] = philox([7, 7], i, 0, 0, 0);
  return unit(a) + unit(b) - 1;
});
/** Rows that losses are drawn from. */
const ROWS = 100;

const targetOf = (i: number): number => 1 + (i % 5) / 2;

export interface TrainerOptions {
  /** Part of the data; with the key of the batches it fixes the noise. */
  readonly shard: string;
  readonly layout: Layout;
  readonly batchSize: number;
  readonly clock: Clock;
  msOf(round: number): number;
  /** Parts of a phase; it can be kept between two of them. */
  readonly parts: number;
  /** Engines of other numbers reach slightly other parameters. */
  readonly engine: number;
}

export function pullingTrainer(options: TrainerOptions): Trainer {
  const { shard, layout, batchSize, clock, msOf, parts, engine } = options;
  return {
    device: { device: 'cpu', threads: 1 },
    layout,
    origin: { shard, build: 'world' },
    async train({ params, round, steps, batchKey, remainingSteps, keeping }, _onProgress, signal) {
      const { from } = keeping ?? {};
      const values = Float32Array.from(from?.vectors[0] ?? params);
      const [draw] = philox(deriveKey('rows', shard, ...batchKey), round, engine, 0, 0);
      const lossesOf = (done: number) => new Float32Array(done).fill(1);
      let done = from?.done ?? 0;
      const stepsIn = (part: number) => Math.max(1, Math.round((steps * part) / parts));
      while (done < parts && (done === 0 || remainingSteps?.(stepsIn(done)) !== 0)) {
        await clock.sleep(msOf(round) / parts, signal);
        for (let i = 0; i < values.length; i++) {
          const noise = 0.3 * NOISE[(draw + i) % NOISE.length]!;
          values[i]! += (targetOf(i) + noise - values[i]!) * (0.5 / parts);
        }
        done++;
        if (done === parts || !keeping?.isDue()) continue;
        await keeping.keep({
          ...{ done, vectors: [values.slice()], losses: lossesOf(done), seconds: 0 },
        });
      }
      const examples = stepsIn(done) * batchSize;
      return { params: values, moments: [], losses: lossesOf(done), examples, seconds: 0 };
    },
    evaluate: async (params) => lossOf(params),
    async measure(params, _, { key, rows: batch }) {
      const rows = drawRows({ key, round: 0, firstStep: 0, steps: 1, batch, bound: ROWS });
      return Float32Array.from(rows, (row) => lossOf(params, row / ROWS - 0.5));
    },
    sample: async () => new Uint8Array(),
    close: async () => undefined,
  };
}

/** Returns the mean squared distance to the target of a row; the middle one has no offset. */
export function lossOf(params: ArrayLike<number>, offset = 0): number {
  let sum = 0;
  for (let i = 0; i < params.length; i++) sum += (params[i]! - targetOf(i) - 0.3 * offset) ** 2;
  return sum / params.length;
}
