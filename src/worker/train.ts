/** The inner phase of a round: H steps, the delta with what was left unsent, and the gradient, signed and saved. */
import { deriveKey } from '../base/rng.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Shares } from '../run/shares.ts';
import type { Vector } from '../tensor/params.ts';
import { deltaOf, localStart, takeSent } from './residual.ts';
import type { Session } from './session.ts';
import type { Sent, WorkerState } from './state.ts';

/** What a round starts from. */
export interface Start {
  readonly base: Digest;
  readonly roster: readonly WorkerId[];
  readonly shares: Shares;
  /** Digest of the outcome before, in certified rounds. */
  readonly parent?: Digest | undefined;
}

/** Trains from the shared parameters and seals the gradient; nothing has been sent when this returns. */
export async function trainAndSeal(
  state: WorkerState,
  { base, roster, shares, parent }: Start,
  { plan, ports: { trainer, wire, report }, reference, signal }: Session,
): Promise<WorkerState & { readonly sent: Sent }> {
  const { round, params } = state;
  const trained = await trainer.train(
    {
      params: localStart(params.values, state.residual, plan.residual),
      moments: state.moments,
      round,
      steps: plan.innerSteps,
      firstStep: round * plan.innerSteps,
      batchKey: deriveKey('nostrain/batches', plan.seed, wire.me),
    },
    (progress) => report({ type: 'progress', round, ...progress }),
    signal,
  );
  if (reference) reference.notes.local = trained;
  const tokens = trained.examples * plan.tokensPerExample;
  const loss = mean(trained.losses);
  report({ type: 'trained', round, loss, tokens, seconds: trained.seconds });

  const delta = deltaOf(params.values, trained.params, state.residual, plan.residual);
  const { examples } = trained;
  const own = { round, base, shares, steps: plan.innerSteps, examples, prev: state.lastSent };
  const learned = parent === undefined ? {} : { learned: Float64Array.from(delta) };
  const { sent, ...sealed } = await wire.seal({ ...own, parent, delta });
  const { residual, share } = takeSent(delta, sent, plan.residual, shares.moving);
  return {
    ...state,
    ...learned,
    moments: trained.moments,
    residual,
    tokens: state.tokens + tokens,
    sent: {
      ...sealed,
      roster,
      trainingLoss: loss,
      secondsTraining: trained.seconds,
      residualShare: share,
    },
  };
}

function mean(values: Vector): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
