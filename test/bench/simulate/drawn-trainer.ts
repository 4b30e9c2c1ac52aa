/**
 * Training without an engine: every inner phase takes its time on the clock and moves the parameters by draws that differ from worker to
 * worker. Where it may be cut short it goes in parts, and one that is taken up again takes the rest of its time.
 */
import type { Clock } from '../../../src/base/clock.ts';
import { philox, unit } from '../../../src/base/rng.ts';
import type { Layout } from '../../../src/tensor/params.ts';
import type { Trainer } from '../../../src/worker/ports.ts';

/** Draws, reused from other places on: enough for updates that are not alike. */
const TABLE = Float32Array.from({ length: 4096 }, (_, i) => {
  const [a, b] = philox([7, 7], i, 0, 0, 0);
  return unit(a) + unit(b) - 1;
});

export const drawnTrainer = (
  index: number,
  layout: Layout,
  clock: Clock,
  msOf: (round: number) => number,
  /** Parts that a phase is kept between. */
  parts = 1,
): Trainer => ({
  device: { device: 'cpu', threads: 1 },
  layout,
  async train(task, _onProgress, signal) {
    const { keeping } = task;
    for (let done = keeping?.from?.done ?? 0; done < parts; ) {
      await clock.sleep(msOf(task.round) / parts, signal);
      done++;
      if (done < parts && keeping?.isDue()) {
        await keeping.keep({ done, vectors: [], losses: new Float32Array(done), seconds: 0 });
      }
    }
    const losses = new Float32Array(task.steps).fill(1);
    const from = philox([index, task.round], 0, 0, 0, 0)[0];
    const params = task.params.map((value, i) => value * 0.9 + TABLE[(from + i) % TABLE.length]!);
    return { params, moments: [], losses, examples: 8, seconds: 0 };
  },
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});
