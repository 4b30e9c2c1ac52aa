/** The inner phase of a round: H steps, the delta with what was left unsent, and the gradient, signed and saved. */
import { deriveKey } from '../base/rng.ts';
import type { Digest } from '../run/ids.ts';
import { deltaWithResidual, takeSent } from './residual.ts';
import type { Session } from './session.ts';
import type { Sent, WorkerState } from './state.ts';

/** Trains from the shared parameters and seals the gradient; nothing has been sent when this returns. */
export async function trainAndSeal(
  state: WorkerState,
  base: Digest,
  { plan, ports: { trainer, wire, report }, signal }: Session,
): Promise<WorkerState & { readonly sent: Sent }> {
  const { round, params } = state;
  const trained = await trainer.train(
    {
      params: Float32Array.from(params.values),
      moments: state.moments,
      round,
      steps: plan.innerSteps,
      firstStep: round * plan.innerSteps,
      batchKey: deriveKey('nostrain/batches', plan.seed, wire.me),
    },
    (progress) => report({ type: 'progress', round, ...progress }),
    signal,
  );
  const tokens = trained.examples * plan.tokensPerExample;
  const loss = mean(trained.losses);
  report({ type: 'trained', round, loss, tokens, seconds: trained.seconds });

  const delta = deltaWithResidual(params.values, trained.params, state.residual);
  const { examples } = trained;
  const own = { round, base, steps: plan.innerSteps, examples, prev: state.lastSent, delta };
  const sealed = wire.seal(own);
  const residualShare = takeSent(delta, sealed.sent);
  return {
    ...state,
    moments: trained.moments,
    residual: plan.errorFeedback ? delta : new Float64Array(delta.length),
    tokens: state.tokens + tokens,
    sent: {
      event: sealed.event,
      payload: sealed.payload,
      payloadBytes: sealed.payloadBytes,
      eventBytes: sealed.eventBytes,
      trainingLoss: loss,
      secondsTraining: trained.seconds,
      residualShare,
    },
  };
}

function mean(values: Float32Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
