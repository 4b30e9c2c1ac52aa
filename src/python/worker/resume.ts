/** A training state of the Python reference's checkpoints as the state of a worker that goes on from it. */
import { ok, type Result } from '../../base/result.ts';
import { genesis } from '../../worker/state.ts';
import type { CheckpointBody } from '../wire/checkpoints.ts';
import { readLateGradient, readReconciliation } from '../wire/late-record.ts';
import { readRoundRecord } from '../wire/round-record.ts';
import { noHistory } from './history.ts';
import type { PythonState } from './session.ts';

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
