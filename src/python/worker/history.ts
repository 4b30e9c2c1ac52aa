/** What a worker of the Python reference's profile carries from round to round for its summaries and checkpoints. */
import type { LateGradient, Reconciliation } from '../wire/late-record.ts';
import { type LateSummary, NOTHING_LATE, type RoundRecord } from '../wire/round-record.ts';

export interface History {
  /** Oldest first, those of earlier sessions included. */
  readonly records: readonly RoundRecord[];
  readonly late: readonly LateGradient[];
  readonly reconciliations: readonly Reconciliation[];
  /** Unix seconds up to which late gradients were looked for; undefined before the first round. */
  readonly lateSince: number | undefined;
  /** What was folded in before the round in progress. */
  readonly folded: LateSummary;
}

export const noHistory: History = {
  records: [],
  late: [],
  reconciliations: [],
  lateSince: undefined,
  folded: NOTHING_LATE,
};
