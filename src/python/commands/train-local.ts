/** `nostrain train-local STATE DATASET`: regression without relays, by default to the bit what the Python reference computes. */
import { Command, Option } from 'commander';
import { indentedJson } from '../../formats/python-json.ts';
import type { RegressionDataset, RegressionTask } from '../../model/data/regression.ts';
import { readDataset } from '../../node/data/sources.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import { writeResult } from '../../terminal/output.ts';
import { type RegressionBackend, trainOnBackend } from '../node/train-on-backend.ts';
import type { RegressionTraining } from '../regression/train.ts';
import { above0, backendOption, decimal, integer } from './number-flags.ts';
import {
  addStateInput,
  addStateOutput,
  assertWritable,
  type StateOutput,
  writeState,
} from './state-formats.ts';

interface Flags extends StateOutput {
  readonly runtime?: RegressionTask;
  readonly steps: number;
  readonly learningRate: number;
  readonly batchSize: number;
  readonly metricsOut?: string;
  readonly stateFormat: Parameters<typeof readStateFile>[1];
  readonly backend: RegressionBackend;
}

const RUNTIMES: readonly RegressionTask[] = ['linear-regression', 'mlp-regression'];

export const trainLocal = (): Command =>
  addStateOutput(
    addStateInput(
      new Command('train-local')
        .description('train a regression model on this machine alone, as the Python reference does')
        .argument('<state>', 'state to start from')
        .argument('<dataset>', 'JSON dataset to train on')
        .addOption(
          new Option('--runtime <name>', 'which model it must be (default: what STATE is)').choices(
            RUNTIMES,
          ),
        )
        .addOption(backendOption())
        .addOption(integer('--steps <n>', 'steps of gradient descent', 1).default(500))
        .addOption(decimal('--learning-rate <x>', 'size of a step', above0).default(0.01))
        .addOption(integer('--batch-size <n>', 'examples per step', 1).default(1))
        .option('--metrics-out <file>', 'write settings and losses there as JSON'),
    ),
  ).action(async (state: string, dataset: string, flags: Flags) => {
    assertWritable(flags);
    const params = await readStateFile(state, flags.stateFormat);
    const examples = await readDataset(dataset);
    const training = await trainOnBackend(flags.backend, params, examples, flags);
    if (flags.metricsOut !== undefined) {
      await writeResult(metricsOf(training, examples, flags), flags.metricsOut);
    }
    await writeState({ ...training.params, runtime: training.runtime }, flags);
  });

/** The Python reference's metrics file; the backend is named as it was asked for. */
function metricsOf(
  { runtime, lossBefore, lossAfter }: RegressionTraining,
  { size, features }: RegressionDataset,
  { backend, steps, learningRate, batchSize }: Flags,
): string {
  const metrics = {
    task: runtime,
    runtime,
    backend,
    steps: BigInt(steps),
    learning_rate: learningRate,
    batch_size: BigInt(batchSize),
    example_count: BigInt(size),
    feature_count: BigInt(features),
    loss_before: lossBefore,
    loss_after: lossAfter,
  };
  return `${indentedJson(metrics)}\n`;
}
