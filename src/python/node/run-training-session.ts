/** A worker of the Python reference's profile, from a state and a dataset to the state that its rounds end in. */
import { defaultRetry, systemClock, withScope } from '../../base/async.ts';
import { readModel } from '../../formats/regression-state.ts';
import type { RegressionTask } from '../../model/data/regression.ts';
import { mostPayloadBytes } from '../../network/codec/codecs.ts';
import { createSigner } from '../../network/event.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { createNativeSha256, nativeSha256 } from '../../node/native/sha256.ts';
import { mine } from '../../node/net/proof-of-work.ts';
import { type Connection, connectRelays } from '../../node/net/relays.ts';
import { hello, summary } from '../../node/session-events.ts';
import type { Settings } from '../../run/settings.ts';
import type { Params } from '../../tensor/params.ts';
import type { RoundSummary, WorkerEvent } from '../../worker/events.ts';
import { type Plan, planOf } from '../../worker/plan.ts';
import type { Store, Trainer } from '../../worker/ports.ts';
import { createPythonWire } from '../wire/reference-profile.ts';
import { flipped } from '../wire/sign.ts';
import { type History, noHistory } from '../worker/history.ts';
import { createRegressionTrainer } from '../worker/regression-trainer.ts';
import { startingState } from '../worker/resume.ts';
import type { PythonState, Reference } from '../worker/session.ts';
import { runPythonWorker } from '../worker/strategy.ts';
import { trainOnBackend } from './train-on-backend.ts';
import { settingsOf, type TrainingWorkerConfig, workerName } from './training-worker-config.ts';
import { openZstd } from './zstd.ts';

/** What a session tells, keeps and goes on from. */
export interface TrainingSessionOptions {
  /** Hears everything the worker does, in order. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /** Ends the session, which rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Where the worker stands already, by an earlier session or a checkpoint; `initialState` and `momentumState` are not used then. */
  readonly resume?: PythonState | undefined;
  /** Keeps the state as rounds go on, so that a killed session can go on; default nothing is kept. */
  readonly store?: Store<PythonState> | undefined;
  /** Is handed everything a round made, when it is over. */
  readonly keep?: Reference['keep'];
}

/** Where a session ended. */
export interface TrainingSessionResult {
  /** Name of this worker. */
  readonly worker: string;
  readonly runtime: RegressionTask;
  /** After the last round, f64. */
  readonly state: Params;
  /** Outer momentum then, in the sign of after - before: `momentumState` of a session that goes on from here. */
  readonly momentum: Params;
  /** Oldest first. */
  readonly rounds: readonly RoundSummary[];
  /** The same rounds as the Python reference tells of them, and what came late. */
  readonly history: History;
  /** All of it: `resume` of a session that goes on from here. */
  readonly workerState: PythonState;
}

/**
 * Plays rounds of the Python reference's profile over relays: train, publish, collect, take the outer step. Everything is closed when it
 * ends. Throws a ConfigError for a config that cannot work and a RelayError when no relay can be reached.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, parseRegressionDataset } from 'nostrain/python';
 * import { createSecretKey } from 'nostrain/node';
 * import { runTrainingSession } from 'nostrain/python/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const worker = (x: number) =>
 *   runTrainingSession({
 *     initialState: initializeLinearRegressionState(1),
 *     dataset: parseRegressionDataset({ examples: [{ inputs: [x], target: 2 * x }] }),
 *     relays: [relay.url],
 *     run: 'tea',
 *     secretKey: createSecretKey(),
 *     rounds: 2,
 *     innerSteps: 5,
 *     sync: { strategy: 'strict', workers: 2 },
 *     roundTimeoutMs: 30_000,
 *   });
 * const [ann, bob] = await Promise.all([worker(1), worker(2)]);
 * await relay.close();
 * ann.rounds.length; // => 2
 * ann.state.values; // => bob.state.values
 * ```
 */
export const runTrainingSession = (
  config: TrainingWorkerConfig,
  options: TrainingSessionOptions = {},
): Promise<TrainingSessionResult> =>
  withScope(async (scope) => {
    const settings = settingsOf(config);
    const signer = createSigner(config.secretKey, nativeCrypto);
    const worker = workerName(config, signer.publicKey);
    const relays = parseRelayUrls(config.relays);
    const start = options.resume ?? startingState(config);
    const { runtime } = readModel(start.params);
    const { signal = new AbortController().signal, onEvent: report = () => undefined } = options;
    const trainer = trainerOf(config, settings, start.params);
    const { layout } = trainer;
    const connection = connectionOf(config);
    const set = await connectRelays(relays, connection, signer, signal);
    scope.defer(() => set.close());
    const { run, codec, topk: ratio } = settings;
    const { referenceCompatible: isCompatible = false, advertisedRelays: advertised } = config;
    const limits = { maxContainerBytes: mostPayloadBytes(layout), zstd: await openZstd() };
    const { wire, events } = createPythonWire({
      run,
      layout,
      relays: set,
      signer,
      mine,
      codec,
      ratio,
      ...limits,
      clock: systemClock,
      sha256: nativeSha256,
      reference: { worker: config.worker, isCompatible, runtime, advertised },
    });
    scope.defer(() => wire.close());
    const plan = planOf(settings, {
      task: runtime,
      runtime,
      rounds: (config.startRound ?? start.round) + settings.rounds,
      ...(isCompatible ? { weightCap: Number.MAX_SAFE_INTEGER } : {}),
    });
    report(hello(plan, trainer, wire.me, start));
    const reference: Reference = {
      isCompatible,
      examples: config.dataset.size,
      limits,
      late: lateRule(config, plan, isCompatible),
      publishMs: connection.openTimeoutMs,
      lateWaitMs: config.lateGradientTimeoutMs ?? 200,
      keep: options.keep ?? (async () => undefined),
    };
    const ports = {
      clock: systemClock,
      trainer,
      wire,
      report,
      createSha256: createNativeSha256,
      store: options.store ?? FORGETFUL,
    };
    const final = await runPythonWorker(start, { plan, ports, events, reference, signal });
    report(await summary(final, trainer, wire.traffic()));
    const { params: state, rounds, history = noHistory } = final;
    const momentum = { layout: state.layout, values: flipped(final.momentum) };
    return { worker, runtime, state, momentum, rounds, history, workerState: final };
  });

const FORGETFUL: Store<PythonState> = { load: async () => undefined, save: async () => undefined };

function trainerOf(
  { dataset, runtime, backend = 'python' }: TrainingWorkerConfig,
  { localLearningRate: learningRate, batchSize }: Settings,
  { layout }: Params,
): Trainer {
  return createRegressionTrainer({
    layout,
    dataset,
    runtime,
    learningRate,
    batchSize,
    now: () => systemClock.now(),
    run: (params, regression) => trainOnBackend(backend, params, dataset, regression),
  });
}

/** Members that are left out stay out: the relay set decides on them. */
function connectionOf(config: TrainingWorkerConfig): Connection {
  const { openTimeoutMs = 10_000, retry = defaultRetry, eventsPerMinute, maxEventBytes } = config;
  return {
    openTimeoutMs,
    retry,
    ...(eventsPerMinute === undefined ? {} : { eventsPerMinute }),
    ...(maxEventBytes === undefined ? {} : { maxEventBytes }),
  };
}

const lateRule = (
  config: TrainingWorkerConfig,
  { outer, weightCap }: Plan,
  isCompatible: boolean,
): Reference['late'] => ({
  strategy: config.lateGradientStrategy ?? 'deferred',
  learningRate: config.lateGradientLearningRate ?? outer.learningRate,
  momentum: config.lateGradientMomentum ?? outer.momentum,
  advancesMomentum: isCompatible,
  weightCap,
});
