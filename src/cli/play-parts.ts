/** What playing a worker takes however it is told to train: the plan in its settings, and what is said first and last. */
import { createNativeSha256 } from '../node/native-sha256.ts';
import type { Settings } from '../run/settings.ts';
import { stateDigest } from '../tensor/digest.ts';
import type { WorkerEvent } from '../worker/events.ts';
import { completePlan, type Plan } from '../worker/plan.ts';
import type { Trainer } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';

/** Batches of the own shard looked at before and after the run. */
export const SHARD_BATCHES = 4;

/** The plan that settings make; what they leave open comes from the task. */
export function planOf(settings: Settings, task: Partial<Plan>): Plan {
  const { sync, innerSteps, batchSize } = settings;
  const peers = sync.strategy === 'strict' ? sync.workers : 1;
  return completePlan({
    run: settings.run,
    task: settings.model,
    rounds: settings.rounds,
    checkpointHistory: settings.checkpointHistory,
    innerSteps,
    seed: settings.seed,
    outer: { learningRate: settings.outerLearningRate, momentum: settings.momentum },
    residual: settings.residual,
    owners: settings.owners,
    fragments: settings.fragments,
    weights: settings.weights,
    weightCap: settings.maxExamples || innerSteps * batchSize,
    normalize: settings.normalize,
    sync,
    roundTimeoutMs: settings.roundTimeout * 1000,
    waitFor: settings.waitFor || peers,
    joinTimeoutMs: settings.joinTimeout * 1000,
    heartbeatSeconds: settings.heartbeatInterval,
    maxMissedHeartbeats: settings.maxMissedHeartbeats,
    ...task,
  });
}

/** Who trains what, and from where. */
export const hello = (
  plan: Plan,
  { device: { device, threads }, layout }: Trainer,
  worker: string,
  state: WorkerState,
): WorkerEvent => ({
  type: 'hello',
  ...{ worker, run: plan.run, task: plan.task, parameters: layout.size, device, threads },
  ...{ rounds: plan.rounds, round: state.round, innerSteps: plan.innerSteps },
  digest: stateDigest(state.params, createNativeSha256),
  lossBefore: state.lossBefore,
});

/** What came of it. */
export async function summary(
  state: WorkerState,
  trainer: Trainer,
  traffic: { readonly bytesSent: number; readonly bytesReceived: number },
): Promise<WorkerEvent> {
  const sum = (pick: (round: WorkerState['rounds'][number]) => number) =>
    state.rounds.reduce((total, round) => total + pick(round), 0);
  const validationLoss = state.rounds.at(-1)?.validationLoss;
  return {
    type: 'done',
    digest: stateDigest(state.params, createNativeSha256),
    rounds: state.round,
    lossBefore: state.lossBefore,
    lossAfter: await trainer.evaluate(state.params.values, 'shard', { batches: SHARD_BATCHES }),
    tokens: state.tokens,
    ...traffic,
    secondsTraining: sum(({ secondsTraining }) => secondsTraining),
    secondsWaiting: sum(({ secondsWaiting }) => secondsWaiting),
    ...(validationLoss === undefined ? {} : { validationLoss }),
  };
}
