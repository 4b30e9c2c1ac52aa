/** The end of a round: aggregate, outer step, digest, evaluation, and the summary people see. */
import { inOrder, meanDelta } from '../consensus/aggregate/mean.ts';
import { nesterovStep } from '../consensus/outer/nesterov.ts';
import type { RoundInbox } from '../network/wire/wire.ts';
import type { Contribution } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Shares } from '../run/shares.ts';
import type { CompletionReason } from '../run/sync.ts';
import { stateDigest } from '../tensor/digest.ts';
import type { RoundSummary } from './events.ts';
import { giveBack } from './residual.ts';
import type { Session } from './session.ts';
import type { Sent, WorkerState } from './state.ts';

/** How the round went until now. */
export interface Closing {
  readonly base: Digest;
  readonly shares: Shares;
  readonly reason: CompletionReason;
  readonly startedMs: number;
  readonly secondsWaiting: number;
}

/** The state after the outer step over exactly the contributions in the inbox. */
export async function settle(
  state: WorkerState & { readonly sent: Sent },
  inbox: RoundInbox,
  closing: Closing,
  session: Session,
): Promise<WorkerState> {
  const { plan, ports } = session;
  const { params, sent } = state;
  const cohort = inOrder([...inbox.contributions.values()]);
  const id = idOf(sent);
  const counts = cohort.some(({ eventId }) => eventId === id);
  const mean = meanDelta(cohort, {
    size: params.layout.size,
    weights: plan.weights,
    cap: plan.weightCap,
    normalize: plan.normalize,
  });
  if (session.reference) session.reference.notes.mean = mean;
  const stepped = nesterovStep(params.values, state.momentum, mean, plan.outer);
  const next = { layout: params.layout, values: stepped.values };
  const accepted = [...new Set(cohort.map(({ worker }) => worker))];
  const summary: RoundSummary = {
    index: state.round,
    base: closing.base,
    digest: stateDigest(next, ports.createSha256),
    accepted,
    refused: inbox.rejections.map(({ reason, worker }) => ({
      reason,
      ...(worker === undefined ? {} : { worker }),
    })),
    completionReason: closing.reason,
    trainingLoss: sent.trainingLoss,
    ...(await evaluate(next.values, state.round, session)),
    payloadBytes: Math.max(...cohort.map(({ payloadBytes }) => payloadBytes)),
    eventBytes: Math.max(...cohort.map(({ eventBytes }) => eventBytes)),
    residualShare: counts ? sent.residualShare : 1,
    secondsTraining: sent.secondsTraining,
    secondsWaiting: closing.secondsWaiting,
    seconds: (ports.clock.now() - closing.startedMs) / 1000,
  };
  return {
    ...state,
    round: state.round + 1,
    params: next,
    momentum: stepped.momentum,
    residual: counts ? state.residual : unsent(state, closing.shares, session),
    cohort: accepted,
    folded: fold(state.folded, cohort),
    rounds: [...state.rounds, summary],
    lastSent: id,
    sent: undefined,
  };
}

/** Id of the event that carries a gradient. */
export const idOf = ({ event }: Sent): string => event.id;

/** What is left to send when the gradient did not count; under `async` others may still use it later. */
function unsent(
  { residual, sent, round }: WorkerState & { readonly sent: Sent },
  shares: Shares,
  { plan, ports: { wire } }: Session,
): Float64Array {
  if (plan.sync.strategy === 'async') return residual;
  return giveBack(residual, wire.open(sent, { round, shares }), plan.residual);
}

/** The newest round of each worker that is in the model now. */
function fold(
  before: WorkerState['folded'],
  cohort: readonly Contribution[],
): WorkerState['folded'] {
  const folded: Record<WorkerId, number> = { ...before };
  for (const { worker, round } of cohort) folded[worker] = Math.max(round, folded[worker] ?? -1);
  return folded;
}

/** Loss and text of the shared parameters, where this worker is asked for them. */
export async function evaluate(
  values: WorkerState['params']['values'],
  round: number,
  { plan, ports: { trainer } }: Session,
): Promise<Pick<RoundSummary, 'validationLoss' | 'sample'>> {
  if (!plan.evaluate) return {};
  const shared = Float32Array.from(values);
  const isLast = round === plan.rounds - 1;
  const validationLoss = await trainer.evaluate(
    shared,
    'validation',
    isLast ? undefined : { batches: plan.evaluateBatches },
  );
  return plan.writeSample
    ? { validationLoss, sample: await plan.writeSample(shared, round) }
    : { validationLoss };
}
