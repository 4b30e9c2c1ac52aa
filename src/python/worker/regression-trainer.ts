/**
 * The Python reference's regressions as a trainer: f64, consecutive batches from the first example on in every round, losses over the
 * whole dataset. There is nothing to draw, to carry over or to write.
 */
import { ConfigError, TrainingError } from '../../base/errors.ts';
import type { RegressionDataset } from '../../model/data/regression.ts';
import type { Layout, Params, Vector } from '../../tensor/params.ts';
import type { Trainer } from '../../worker/ports.ts';
import {
  evaluateRegression,
  type RegressionOptions,
  type RegressionTraining,
  trainRegression,
} from '../regression/train.ts';

export interface RegressionTrainerOptions extends Omit<RegressionOptions, 'steps'> {
  readonly layout: Layout;
  readonly dataset: RegressionDataset;
  /** What computes; default the plain loop, where it is called: rounds of these models take milliseconds. */
  run?(params: Params, options: RegressionOptions): Promise<RegressionTraining>;
  /** Milliseconds, to tell how long training took. */
  readonly now: () => number;
}

/** A trainer of the model that the layout is. */
export function createRegressionTrainer(options: RegressionTrainerOptions): Trainer {
  const { layout, dataset, now } = options;
  const plainly: NonNullable<typeof options.run> = async (params, regression) =>
    trainRegression(params, dataset, regression);
  const { run = plainly } = options;
  const paramsOf = (values: Vector): Params => ({ layout, values: Float64Array.from(values) });
  return {
    device: { device: 'cpu', threads: 1 },
    layout,
    async train({ params, steps }, onProgress, signal) {
      signal.throwIfAborted();
      const startMs = now();
      const { learningRate, batchSize, runtime } = options;
      const trained = await run(paramsOf(params), { learningRate, batchSize, runtime, steps });
      const seconds = (now() - startMs) / 1000;
      const { lossAfter: loss } = trained;
      const examples = steps * options.batchSize;
      const tokensPerSecond = examples / Math.max(seconds, 1e-3);
      onProgress({ step: steps, steps, loss, tokensPerSecond });
      return {
        params: trained.params.values,
        moments: [],
        losses: Float64Array.of(loss),
        // what a gradient weighs in the Python reference: the size of its dataset, however often it was gone through
        examples: dataset.size,
        seconds,
      };
    },
    async evaluate(params) {
      const loss = evaluateRegression(paramsOf(params), dataset);
      if (Number.isFinite(loss)) return loss;
      throw new TrainingError('training/not-finite', 'the loss stopped being finite', {
        hint: 'lower --local-learning-rate or --outer-learning-rate',
      });
    },
    async sample() {
      throw new ConfigError('model/sample', 'a regression has no text');
    },
    async close() {},
  };
}
