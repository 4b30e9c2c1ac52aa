/** The inner phase of a round: H optimizer steps, the delta with what was left unsent before, and the gradient, signed and saved. */
import { deriveKey } from '../base/rng.ts';
import { manifestTelemetry } from '../run/telemetry.ts';
import type { Vector } from '../tensor/params.ts';
import type { Session } from './ports.ts';
import { awake, deltaOf, localStart, putBack, takeSent } from './residual.ts';
import { isSealed, measuredBefore, type SealedState, type WorkerState } from './state.ts';
import type { RoundStart } from './strategy.ts';

/** The gradient of the round: the one on disk after a restart, or a new one that is on disk before anybody sees it. */
export async function trainOrResume<S extends WorkerState>(
  state: S,
  start: RoundStart,
  session: Session,
): Promise<SealedState<S>> {
  if (isSealed(state)) return state;
  const sealed = await trainAndSeal(state, start, session);
  await session.ports.store.save(sealed);
  return sealed;
}

/** Trains from the shared parameters and seals the gradient; nothing has been sent when this returns. */
async function trainAndSeal<S extends WorkerState>(
  state: S,
  { base, roster, assignment, parent, keepsDelta }: RoundStart,
  { plan, ports: { trainer, wire, report }, signal }: Session,
): Promise<SealedState<S>> {
  const { round, params } = state;
  const { stretch } = assignment;
  const own = awake(state.residual, stretch);
  const trained = await trainer.train(
    {
      params: localStart(params.values, own, plan.residual),
      moments: state.moments,
      round,
      steps: plan.innerSteps,
      firstStep: round * plan.innerSteps,
      batchKey: deriveKey('nostrain/batches', plan.seed, wire.me),
    },
    (progress) => report({ type: 'progress', round, ...progress }),
    signal,
  );
  const { examples, seconds } = trained;
  const tokens = examples * plan.tokensPerExample;
  const loss = mean(trained.losses);
  report({ type: 'trained', round, loss, tokens, seconds });

  const delta = deltaOf(params.values, trained.params, own, plan.residual);
  const whole = Float64Array.from(delta);
  putBack(whole, state.residual, stretch);
  const said = { round, base, assignment, parent, steps: plan.innerSteps, examples };
  const features = manifestTelemetry(loss, trainer.device.device, measuredBefore(state));
  const { sent, ...sealed } = await wire.seal({ ...said, features, prev: state.lastSent, delta });
  const { residual, share } = takeSent(delta, sent, plan.residual, assignment.moving);
  putBack(residual, state.residual, stretch);
  return {
    ...state,
    ...(keepsDelta && { unpacked: whole }),
    moments: trained.moments,
    residual,
    tokens: state.tokens + tokens,
    sent: {
      ...sealed,
      roster,
      trainingLoss: loss,
      secondsTraining: seconds,
      residualShare: share,
    },
  };
}

function mean(values: Vector): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
