/** What `npm run bench:tab` times: some steps of one model, by whichever trainer it is handed; the same in Node and, bundled, in a page. */
import { deriveKey } from 'nostrain/base';
import { initialParameters } from 'nostrain/model';
import type { TrainerSetup } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import { chainCorpus, charGpt } from '../../support/ort-models.ts';

export interface Timed {
  readonly threads: number;
  /** Of each step after the first ones. */
  readonly msPerStep: readonly number[];
  /** After the last step. */
  readonly loss: number;
}

/** Steps before this one are warm-up. */
const WARM = 3;
const BATCH = 32;

export const modelTimed = charGpt;
export const batchTimed = BATCH;

export async function timeSteps(
  open: (setup: TrainerSetup) => Promise<EngineTrainer>,
  { steps, threads }: { readonly steps: number; readonly threads: number },
): Promise<Timed> {
  const model = charGpt;
  const corpus = chainCorpus(200_000, model.vocabulary);
  const trainer = await open({
    ...{ model, batch: BATCH, device: 'cpu', threads },
    optimizer: {
      ...{ optimizer: 'adamw', beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
      ...{
        clipNorm: 1,
        schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
      },
    },
    data: { kind: 'tokens', shard: corpus, validation: corpus.subarray(0, 10_000) },
  });
  const task = {
    ...{ params: initialParameters(model, 1), moments: [], round: 0, steps: steps + WARM },
    ...{ firstStep: 0, batchKey: deriveKey('bench') },
  };
  const msPerStep: number[] = [];
  let done = 0;
  const onProgress = (progress: { step: number; tokensPerSecond: number }) => {
    const count = progress.step - done;
    done = progress.step;
    const ms = (1000 * BATCH * model.context) / progress.tokensPerSecond;
    if (done > WARM) msPerStep.push(...new Array<number>(Math.min(count, done - WARM)).fill(ms));
  };
  const { losses } = await trainer.train(task, onProgress, new AbortController().signal);
  const { threads: used } = trainer.device;
  await trainer.close();
  return { threads: used, msPerStep, loss: losses[losses.length - 1]! };
}
