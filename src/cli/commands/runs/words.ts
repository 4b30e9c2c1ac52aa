/** A run on this machine in words and as JSON, for `nostrain runs`, `show` and `clean`. */
import { join } from 'node:path';
import { formatLoss } from '../../../base/numbers.ts';
import type { CertifiedSummary } from '../../../certified/rounds/events.ts';
import { addPoint, type Curve, emptyCurve, pointsOf } from '../../../dashboard/worker-view.ts';
import type { LocalRun } from '../../../node/files/local-runs.ts';
import { formOf } from '../../../run/data-forms.ts';
import { commandLine } from '../../../terminal/command-line.ts';

/** What `runs --json` lists of a run. */
export function summaryOf(run: LocalRun) {
  const { name, kind, state, dir, worker, model, parameters, rounds, played, bytes } = run;
  const last = run.history.at(-1);
  return {
    name,
    kind,
    state,
    run: run.run,
    model,
    parameters,
    roundsDone: played,
    rounds,
    trainingLoss: finite(last?.trainingLoss),
    validationLoss: finite(last?.validationLoss),
    bytes,
    changedAt: new Date(run.changedAtMs).toISOString(),
    folder: dir,
    modelFile: modelFileOf(worker),
  };
}

export const modelFileOf = (worker: string): string => join(worker, 'state.safetensors');

/** JSON has no NaN. */
const finite = (loss: number | undefined): number | undefined =>
  loss !== undefined && Number.isFinite(loss) ? loss : undefined;

/** The loss of the shared model after a round, else that of this worker's training. */
export const lossAfter = ({ validationLoss, trainingLoss }: CertifiedSummary): number =>
  validationLoss ?? trainingLoss;

/** The newest loss. */
export function lossOf({ history }: LocalRun): string {
  const last = history.at(-1);
  return last === undefined ? '-' : formatLoss(lossAfter(last));
}

/** Losses over the rounds, in bounded number. */
export const curveOf = ({ history }: LocalRun): readonly number[] =>
  pointsOf(
    history
      .map(lossAfter)
      .filter(Number.isFinite)
      .reduce((curve: Curve, loss) => addPoint(curve, loss), emptyCurve),
  );

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `3 min ago` */
export function formatAge(ms: number): string {
  if (ms < MINUTE) return 'now';
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ago`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ago`;
  return `${Math.floor(ms / DAY)} days ago`;
}

/** One row per round, numbers as they are; `index` is from 0. */
export const roundRow = (round: CertifiedSummary) => ({
  index: round.index,
  validationLoss: finite(round.validationLoss),
  bitsPerByte: finite(round.bitsPerByte),
  accuracy: round.accuracy,
  trainingLoss: finite(round.trainingLoss),
  counted: round.accepted.length,
  refused: Math.max(round.refused.length, round.certified?.rejected.length ?? 0),
  payloadBytes: round.payloadBytes,
  eventBytes: round.eventBytes,
  secondsTraining: round.secondsTraining,
  secondsWaiting: round.secondsWaiting,
  seconds: round.seconds,
  result: round.certified?.result ?? round.completionReason,
  model: round.digest,
});

/** The line that shows what the model of a run has learned; undefined for models of rows. */
export function sampleCommand({ word, model, parameters }: LocalRun): string | undefined {
  const writes = model !== undefined && formOf({ model }) !== 'rows';
  if (parameters === undefined || !writes) return undefined;
  return commandLine(['sample', word]);
}
