/** What a session starts from: nothing, or a training state of the Python reference's checkpoints. */
import { ok, type Result } from '../../base/errors.ts';
import { arranged } from '../../formats/arithmetic.ts';
import { readModel, writeModel } from '../../formats/regression-state.ts';
import type { RegressionDataset } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import { genesis } from '../../worker/state.ts';
import { evaluateRegression } from '../regression/train.ts';
import type { CheckpointBody } from '../wire/checkpoints.ts';
import { flipped } from '../wire/messages.ts';
import { readLateGradient, readReconciliation, readRoundRecord } from '../wire/records.ts';
import { noHistory, type PythonState } from './session.ts';

export interface ResumeOptions {
  readonly nextRound: number;
  /** Takes late gradients over, too: from whom one believes everything. */
  readonly keepsLate: boolean;
  readonly lossBefore: number;
}

/** The state to go on from, or which part of the checkpoint cannot be read. */
export function resumeFrom(
  body: CheckpointBody,
  { nextRound, keepsLate, lossBefore }: ResumeOptions,
): Result<PythonState> {
  const records = readAll(body.rounds, readRoundRecord);
  if (!records.ok) return records;
  const late = readAll(keepsLate ? body.lateGradients : [], readLateGradient);
  if (!late.ok) return late;
  const reconciliations = readAll(keepsLate ? body.lateReconciliations : [], readReconciliation);
  if (!reconciliations.ok) return reconciliations;
  const first = genesis(body.state, lossBefore);
  return ok({
    ...first,
    round: nextRound,
    momentum: body.momentum?.values ?? first.momentum,
    history: {
      ...noHistory,
      records: records.value,
      late: late.value,
      reconciliations: reconciliations.value,
      lateSince: body.lateGradientSince || body.updatedAt,
    },
  });
}

function readAll<J, T>(items: readonly J[], read: (item: J) => Result<T>): Result<readonly T[]> {
  const all: T[] = [];
  for (const item of items) {
    const one = read(item);
    if (!one.ok) return one;
    all.push(one.value);
  }
  return ok(all);
}

export interface StartingOptions {
  readonly initialState: Params;
  readonly dataset: RegressionDataset;
  readonly startRound?: number | undefined;
  /** In the Python reference's sign, that of after - before; zeros when absent. */
  readonly momentumState?: Params | undefined;
  /** What errors call it. */
  readonly momentumName?: string;
}

/** The state before the first round, with its loss on the own data. Throws a ConfigError where the parts do not fit. */
export function startingState(options: StartingOptions): PythonState {
  const { dataset, startRound, momentumState, momentumName = 'momentumState' } = options;
  const params = asModel(options.initialState);
  const state = {
    ...genesis(params, evaluateRegression(params, dataset)),
    round: startRound ?? 0,
    history: noHistory,
  };
  if (momentumState === undefined) return state;
  const { values } = arranged(asModel(momentumState), params.layout, momentumName);
  return { ...state, momentum: flipped(values) };
}

/** f64, and laid out as the Python reference lays it out. */
const asModel = (params: Params): Params => writeModel(readModel(params));
