/** After a round: the whole state as an event, where the model is small enough for one. Nothing waits for it. */
import type { RoundSummary } from '../../worker/events.ts';
import type { CheckpointSent } from '../wire/python-events.ts';
import { plainRecord, type RoundRecord } from '../wire/round-record.ts';
import type { PythonSession, PythonState } from './session.ts';

/** Publishes the state in one of a few slots used in turn; a relay that refuses it is only told about. */
export function publishCheckpoint(
  state: PythonState,
  { plan, events, ports: { wire, report } }: PythonSession,
): CheckpointSent {
  const { history } = state;
  const checkpoint = events.checkpoint({
    round: state.round - 1,
    slot: (state.round - 1) % plan.checkpointHistory,
    state: state.params,
    momentum: { layout: state.params.layout, values: state.momentum },
    runtime: plan.runtime,
    rounds: history?.records ?? state.rounds.map((round) => recordOf(round, state, wire.relays)),
    late: history?.late ?? [],
    reconciliations: history?.reconciliations ?? [],
    lateSince: history?.lateSince,
  });
  void checkpoint.sending?.settled.then(({ accepted, failed }) => {
    if (accepted.length > 0) return;
    const words = failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
    report({ type: 'notice', message: `no relay took the checkpoint (${words})` });
  });
  return checkpoint;
}

/** What a run without the Python reference's records knows of a round. */
const recordOf = (
  round: RoundSummary,
  { lossBefore }: PythonState,
  relays: readonly string[],
): RoundRecord =>
  plainRecord(
    {
      round: round.index,
      digestBefore: round.base,
      digestAfter: round.digest,
      losses: {
        before: lossBefore,
        afterInner: round.trainingLoss,
        afterOuter: round.validationLoss ?? round.trainingLoss,
      },
      collectedWorkers: round.accepted,
      reason: round.completionReason,
    },
    relays,
  );
