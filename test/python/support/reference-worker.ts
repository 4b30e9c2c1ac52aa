/** A worker of the reference's profile on in-memory relays and a manual clock. */
import { fromHex } from 'nostrain/base';
import { parseRegressionDataset } from 'nostrain/model';
import { createSigner, type RelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { evaluateRegression, readRegressionModel as readModel } from 'nostrain/python';
import { createPythonWire } from 'nostrain/python/parts';
import type { Params } from 'nostrain/tensor';
import { completePlan, genesis, type Plan, type WorkerEvent } from 'nostrain/worker';
import { createRegressionTrainer } from '../../../src/python/node/train-on-backend.ts';
import {
  type LateRule,
  noHistory,
  type PythonState,
  type RoundTrace,
} from '../../../src/python/worker/session.ts';
import { runPythonWorker } from '../../../src/python/worker/strategy.ts';
import type { ManualClock } from '../../support/manual-clock.ts';

export interface ReferenceWorkerOptions {
  readonly clock: ManualClock;
  readonly relays: RelaySet;
  /** Hex. */
  readonly secretKey: string;
  readonly dataset: unknown;
  readonly params: Params;
  readonly plan: Partial<Plan> & Pick<Plan, 'run' | 'rounds' | 'innerSteps'>;
  readonly learningRate: number;
  readonly batchSize: number;
  readonly ratio: number;
  readonly late?: Partial<LateRule>;
  readonly isCompatible?: boolean;
  readonly worker?: string;
  readonly start?: PythonState;
}

export interface ReferenceWorker {
  readonly id: string;
  readonly events: WorkerEvent[];
  readonly saved: PythonState[];
  readonly traces: RoundTrace[];
  readonly finished: Promise<PythonState>;
  stop(): void;
}

export function startReferenceWorker(options: ReferenceWorkerOptions): ReferenceWorker {
  const { clock, relays, params, isCompatible = false } = options;
  const { layout } = params;
  const signer = createSigner(fromHex(options.secretKey)!, nativeCrypto);
  const dataset = parseRegressionDataset(options.dataset);
  const { runtime } = readModel(params);
  const plan = completePlan({
    ...{ runtime, outer: { learningRate: 0.7, momentum: 0.9 }, residual: 'none' },
    ...{ weights: 'examples', weightCap: 1000, roundTimeoutMs: 2500 },
    ...options.plan,
  });
  const { wire, events: python } = createPythonWire({
    ...{ run: plan.run, layout, relays, signer, clock },
    ...{ ratio: options.ratio, maxContainerBytes: 4096 },
    reference: { worker: options.worker, isCompatible, runtime },
  });
  const [events, saved, traces]: [WorkerEvent[], PythonState[], RoundTrace[]] = [[], [], []];
  const { learningRate, batchSize } = options;
  const now = () => clock.now();
  const abort = new AbortController();
  const lossBefore = evaluateRegression(params, dataset);
  const finished = runPythonWorker(
    options.start ?? { ...genesis(params, lossBefore), history: noHistory },
    {
      plan,
      ports: {
        ...{ clock, wire },
        trainer: createRegressionTrainer({ layout, dataset, learningRate, batchSize, now }),
        store: { load: async () => undefined, save: async (state) => void saved.push(state) },
        report: (event) => void events.push(event),
      },
      reference: {
        ...{ isCompatible, examples: dataset.size, lateWaitMs: 200, publishMs: 10_000 },
        limits: { maxContainerBytes: 4096 },
        late: {
          strategy: 'deferred',
          ...plan.outer,
          advancesMomentum: isCompatible,
          weightCap: plan.weightCap,
          ...options.late,
        },
        keep: async (trace) => void traces.push(trace),
      },
      events: python,
      signal: abort.signal,
    },
  ).finally(() => wire.close());
  finished.catch(() => undefined);
  const stop = () => abort.abort(new Error('killed'));
  return { id: options.worker ?? signer.publicKey, events, saved, traces, finished, stop };
}

/** Signs the event again with another date, as its author would if it were slow. */
export const redated = (event: SignedEvent, secretKey: string, createdAt: number): SignedEvent =>
  createSigner(fromHex(secretKey)!, nativeCrypto).sign({
    ...{ kind: event.kind, tags: event.tags, content: event.content, created_at: createdAt },
  });
