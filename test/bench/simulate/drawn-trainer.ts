/**
 * Training without an engine: every inner phase takes its time on the clock and moves the parameters by draws that
 * differ from worker to worker. Where it may be cut short it goes in parts: one that is taken up again takes the rest
 * of its time.
 */
import { type Clock, philox, unit } from 'nostrain/base';
import type { Layout } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';

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
  /** Parts that a phase is kept between, and stopped where there is no room for more. */
  parts = 1,
): Trainer => ({
  device: { device: 'cpu', threads: 1 },
  layout,
  async train({ params, round, remainingSteps, keeping }, _onProgress, signal) {
    const from = keeping?.from;
    const [begun] = from?.vectors ?? [];
    const before = begun ? from!.done : 0;
    const draw = philox([index, round], 0, 0, 0, 0)[0];
    const after = (done: number) => {
      const share = (done - before) / parts;
      return (begun ?? params).map(
        (value, i) => value * (1 - 0.1 * share) + share * TABLE[(draw + i) % TABLE.length]!,
      );
    };
    const lossesOf = (done: number) => new Float32Array(done).fill(1);
    let done = from?.done ?? 0;
    while (done < parts && (done === 0 || remainingSteps?.(done) !== 0)) {
      await clock.sleep(msOf(round) / parts, signal);
      done++;
      if (done === parts || !keeping?.isDue()) continue;
      const vectors = begun ? [Float32Array.from(after(done))] : [];
      await keeping.keep({ done, vectors, losses: lossesOf(done), seconds: 0 });
    }
    return { params: after(done), moments: [], losses: lossesOf(done), examples: 8, seconds: 0 };
  },
  evaluate: async () => 1,
  sample: async () => new Uint8Array(),
  close: async () => undefined,
});
