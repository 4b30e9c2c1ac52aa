/**
 * Trainers of the two regression models: the Python reference's loop, or onnxruntime in f64 with forward, backward and
 * gradient descent in one graph and many steps per call. The plain loop is faster for tiny models.
 */
import type { InferenceSession } from 'onnxruntime-node';
import { ConfigError, TrainingError } from '../../base/errors.ts';
import { type RegressionModel, writeModel } from '../../formats/regression-state.ts';
import { oneOf } from '../../formats/stored-state.ts';
import type { RegressionDataset } from '../../model/data/regression.ts';
import { compileTraining } from '../../model/training-program.ts';
import { requireEngine } from '../../node/engine/onnxruntime.ts';
import type { ModelSpec, SgdSpec } from '../../run/spec/model-spec.ts';
import type { Layout, Params, Vector } from '../../tensor/params.ts';
import type { Trainer } from '../../worker/ports.ts';
import {
  batchRows,
  evaluateRegression,
  fittingModel,
  type RegressionOptions,
  type RegressionTraining,
  trained,
  trainRegression,
} from '../regression/train.ts';

/**
 * Names of the backends: `python` is the plain loop in the Python reference's order of operations; the others all run
 * onnxruntime.
 *
 * @example
 * ```ts
 * import { regressionBackends } from 'nostrain/python/node';
 *
 * regressionBackends; // => ['python', 'numpy', 'torch', 'onnx']
 * ```
 */
export const regressionBackends = ['python', 'numpy', 'torch', 'onnx'] as const;

/** A backend of `trainOnBackend`; `regressionBackends` lists them. */
export type RegressionBackend = (typeof regressionBackends)[number];

/**
 * Returns the named backend; default `python`. Throws a ConfigError for an unknown name.
 *
 * @example
 * ```ts
 * import { resolveTrainingBackend } from 'nostrain/python/node';
 *
 * resolveTrainingBackend(); // => 'python'
 * resolveTrainingBackend('onnx'); // => 'onnx'
 * ```
 */
export const resolveTrainingBackend = (name = 'python'): RegressionBackend =>
  oneOf(name, regressionBackends, 'training/backend', 'a backend');

/**
 * Trains a copy of the state on a backend, in f64. Losses are mean squared errors. Throws like `trainRegression`.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, parseRegressionDataset } from 'nostrain/python';
 * import { trainOnBackend } from 'nostrain/python/node';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 1 }] });
 * const options = { steps: 1, learningRate: 0.25, batchSize: 1 };
 * const trained = await trainOnBackend('onnx', initializeLinearRegressionState(1), dataset, options);
 * trained.params.values; // => Float64Array.of(0.5, 0.5)
 * ```
 */
export async function trainOnBackend(
  backend: RegressionBackend,
  params: Params,
  dataset: RegressionDataset,
  options: RegressionOptions,
): Promise<RegressionTraining> {
  if (backend === 'python') return trainRegression(params, dataset, options);
  const model = fittingModel(params, dataset, options);
  const lossBefore = evaluateRegression(params, dataset);
  const { learningRate, batchSize } = options;
  const program = compileTraining(specOf(model), sgd(learningRate), batchSize, { dtype: 'f64' });
  requireEngine();
  // loaded on demand: the plain loop needs no engine
  const { nodeRuntime } = await import('../../node/engine/sessions.ts');
  const session = await nodeRuntime.createSession(program.loop(), 'cpu', 1);
  try {
    const start = writeModel(model);
    const values = await runSteps(session, start.values, { dataset, options });
    return trained({ layout: start.layout, values }, lossBefore, { dataset, ...options });
  } finally {
    await session.release();
  }
}

/** Maximum number of row indices in one call. */
const MAX_ROWS = 2 ** 20;

async function runSteps(
  session: InferenceSession,
  start: Params['values'],
  {
    dataset,
    options,
  }: { readonly dataset: RegressionDataset; readonly options: RegressionOptions },
): Promise<Float64Array> {
  const { Tensor } = await import('onnxruntime-node');
  const { steps, batchSize, learningRate } = options;
  const { size, features, inputs, targets } = dataset;
  const stride = Math.max(1, Math.floor(MAX_ROWS / batchSize));
  let values = Float64Array.from(start);
  for (let from = 0; from < steps; from += stride) {
    const count = Math.min(stride, steps - from);
    const rows = new Int32Array(count * batchSize);
    for (let i = 0; i < count; i++) {
      rows.set(batchRows(from + i, batchSize, size), i * batchSize);
    }
    const rates = new Float64Array(count).fill(learningRate);
    const results = await session.run({
      steps: new Tensor('int64', BigInt64Array.of(BigInt(count)), []),
      params: new Tensor('float64', values, [values.length]),
      rates: new Tensor('float64', rates, [count, 1]),
      rows: new Tensor('int32', rows, [count, batchSize]),
      inputs: new Tensor('float64', inputs, [size, features]),
      targets: new Tensor('float64', targets, [size]),
    });
    const data = results['params.next']?.data;
    if (!(data instanceof Float64Array)) throw new TypeError('the model returned no f64 result');
    values = Float64Array.from(data);
  }
  return values;
}

const specOf = (model: RegressionModel): ModelSpec =>
  model.runtime === 'linear-regression'
    ? { architecture: 'linear', features: model.features }
    : { architecture: 'mlp', features: model.features, hidden: [model.hidden] };

const sgd = (learningRate: number): SgdSpec => ({
  optimizer: 'sgd',
  schedule: { learningRate, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
  clipNorm: 0,
});

export interface RegressionTrainerOptions extends Omit<RegressionOptions, 'steps'> {
  readonly layout: Layout;
  readonly dataset: RegressionDataset;
  /** Backend of the inner steps; default the plain loop, since rounds of these models take milliseconds. */
  readonly backend?: RegressionBackend | undefined;
  /** Returns the time in milliseconds, to measure training. */
  readonly now: () => number;
}

/** Creates a trainer of a regression in f64, with losses over the whole dataset; it has no randomness and no state. */
export function createRegressionTrainer(options: RegressionTrainerOptions): Trainer {
  const { layout, dataset, now, learningRate, batchSize, runtime, backend = 'python' } = options;
  const paramsOf = (values: Vector): Params => ({ layout, values: Float64Array.from(values) });
  return {
    device: { device: 'cpu', threads: 1 },
    layout,
    async train({ params, steps }, onProgress, signal) {
      signal.throwIfAborted();
      const startMs = now();
      const regression = { learningRate, batchSize, runtime, steps };
      const trained = await trainOnBackend(backend, paramsOf(params), dataset, regression);
      const seconds = (now() - startMs) / 1000;
      const { lossAfter: loss } = trained;
      const tokensPerSecond = (steps * batchSize) / Math.max(seconds, 1e-3);
      onProgress({ step: steps, steps, loss, tokensPerSecond });
      return {
        params: trained.params.values,
        moments: [],
        losses: Float64Array.of(loss),
        // weight of a gradient in the Python reference: the size of the dataset, regardless of the number of passes
        examples: dataset.size,
        seconds,
      };
    },
    async evaluate(params) {
      const loss = evaluateRegression(paramsOf(params), dataset);
      if (Number.isFinite(loss)) return loss;
      throw new TrainingError('training/not-finite', 'the loss is no longer finite', {
        hint: 'lower --local-learning-rate or --outer-learning-rate',
      });
    },
    async sample() {
      throw new ConfigError('model/sample', 'a regression has no text');
    },
    async close() {},
  };
}
