/** What a worker says first and last, however it is told to train. */
import { wordMachine } from '../run/telemetry.ts';
import { stateDigest } from '../tensor/params.ts';
import type { WorkerEvent, WorkerTier } from '../worker/events.ts';
import type { Plan } from '../worker/plan.ts';
import { SHARD_BATCHES, type Trainer } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import { createNativeSha256 } from './native/sha256.ts';

export const hello = (
  plan: Plan,
  { device, layout }: Trainer,
  worker: string,
  state: WorkerState,
  tier?: WorkerTier,
): WorkerEvent => ({
  type: 'hello',
  worker,
  run: plan.run,
  task: plan.task,
  parameters: layout.size,
  device: wordMachine(device),
  threads: device.threads,
  rounds: plan.rounds,
  round: state.round,
  innerSteps: plan.innerSteps,
  digest: stateDigest(state.params, createNativeSha256),
  lossBefore: state.lossBefore,
  ...(tier && { tier }),
});

/** What is said of a run that is over before it is gone on with. */
export function finished({ round, rounds }: WorkerState): string {
  const last = rounds.at(-1);
  const loss = last?.validationLoss ?? last?.trainingLoss;
  const result = loss === undefined ? '' : `, loss ${loss.toFixed(2)}`;
  return `This run is finished (${round} rounds${result}).`;
}

export async function summary(
  state: WorkerState,
  trainer: Trainer,
  traffic: { readonly bytesSent: number; readonly bytesReceived: number },
): Promise<WorkerEvent> {
  const { validationLoss, bitsPerByte, accuracy } = state.rounds.at(-1) ?? {};
  return {
    type: 'done',
    digest: stateDigest(state.params, createNativeSha256),
    rounds: state.round,
    lossBefore: state.lossBefore,
    lossAfter: await trainer.evaluate(state.params.values, 'shard', { batches: SHARD_BATCHES }),
    tokens: state.tokens,
    ...traffic,
    secondsTraining: state.seconds.training,
    secondsWaiting: state.seconds.waiting,
    peakBytes: 1024 * process.resourceUsage().maxRSS,
    ...(validationLoss === undefined ? {} : { validationLoss }),
    ...(bitsPerByte === undefined ? {} : { bitsPerByte }),
    ...(accuracy === undefined ? {} : { accuracy }),
  };
}
