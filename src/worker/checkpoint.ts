/** After a round: the whole state as an event, where the model is small enough for one. Nothing waits for it. */
import type { Session } from './session.ts';
import type { WorkerState } from './state.ts';

/** Publishes the state in one of a few slots used in turn; a relay that refuses it is only told about. */
export function publishCheckpoint(
  state: WorkerState,
  { plan, ports: { wire, report } }: Session,
): void {
  const sending = wire.checkpoint({
    round: state.round - 1,
    slot: (state.round - 1) % plan.checkpointHistory,
    state: state.params,
    momentum: { layout: state.params.layout, values: state.momentum },
    runtime: plan.runtime,
    rounds: state.rounds.map((round) => ({
      round: round.index,
      digestBefore: round.base,
      digestAfter: round.digest,
      losses: {
        before: state.lossBefore,
        afterInner: round.trainingLoss,
        afterOuter: round.validationLoss ?? round.trainingLoss,
      },
      collectedWorkers: round.accepted,
      reason: round.completionReason,
    })),
  });
  void sending?.settled.then(({ accepted, failed }) => {
    if (accepted.length > 0) return;
    const words = failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
    report({ type: 'notice', message: `no relay took the checkpoint (${words})` });
  });
}
