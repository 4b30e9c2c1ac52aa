/** `nostrain outer-step BASE DELTA`: the step a round ends with, Nesterov momentum over the mean delta. */
import { Command } from 'commander';
import { indentedJson } from '../../formats/python-json.ts';
import { readStateFile } from '../../node/files/state-file.ts';
import type { Params } from '../../tensor/params.ts';
import { writeResult } from '../../terminal/output.ts';
import { nesterovOuterStep } from '../outer/nesterov-outer-step.ts';
import { above0, decimal, momentum } from './number-flags.ts';
import { readDelta } from './payloads.ts';
import {
  addStateInput,
  addStateOutput,
  assertWritable,
  type StateOutput,
  writeState,
} from './state-formats.ts';

interface Flags extends StateOutput {
  readonly learningRate: number;
  readonly momentum: number;
  readonly momentumState?: string;
  readonly momentumOut?: string;
  readonly summaryOut?: string;
  readonly stateFormat: Parameters<typeof readStateFile>[1];
}

export const outerStep = (): Command =>
  addStateOutput(
    addStateInput(
      new Command('outer-step')
        .description('take the outer step of a round: Nesterov momentum over a mean delta')
        .argument('<base>', 'state all workers started the round from')
        .argument('<delta>', 'mean delta: a JSON state, a payload or a gradient event')
        .addOption(decimal('--learning-rate <x>', 'size of the step', above0).default(0.7))
        .addOption(
          decimal('--momentum <x>', 'share of the momentum that stays', momentum).default(0.9),
        )
        .option('--momentum-state <file>', 'momentum after the last step (default: none)')
        .option('--momentum-out <file>', 'write the momentum after this step there')
        .option('--summary-out <file>', 'write the settings and sizes there as JSON'),
    ),
  ).action(takeStep);

async function takeStep(basePath: string, deltaPath: string, flags: Flags): Promise<void> {
  const { momentumState, momentumOut, summaryOut, stateFormat } = flags;
  assertWritable(flags);
  if (momentumOut !== undefined) assertWritable({ ...flags, output: momentumOut });
  const base = await readStateFile(basePath, stateFormat);
  const { delta } = await readDelta(deltaPath);
  const previousMomentum =
    momentumState === undefined ? undefined : await readStateFile(momentumState, stateFormat);
  const step = nesterovOuterStep(base, delta, { ...flags, previousMomentum });
  if (momentumOut !== undefined) {
    await writeState(step.momentumState, { ...flags, output: momentumOut });
  }
  if (summaryOut !== undefined) await writeResult(summaryOf(base, delta, flags), summaryOut);
  await writeState(step.nextState, flags);
}

function summaryOf(base: Params, delta: Params, flags: Flags): string {
  const summary = {
    learning_rate: flags.learningRate,
    momentum: flags.momentum,
    parameter_count: BigInt(base.layout.slots.length),
    aggregated_values: BigInt(delta.layout.size),
  };
  return `${indentedJson(summary)}\n`;
}
