/** A worker of the Python reference's profile, from a config to the state that its rounds end in. */
import { defaultRetry, systemClock, withScope } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { readModel } from '../../formats/regression-state.ts';
import type { RegressionDataset, RegressionTask } from '../../model/data/regression.ts';
import { mostPayloadBytes } from '../../network/codec/codecs.ts';
import { createSigner } from '../../network/event.ts';
import { parseRelayUrls } from '../../network/transport/relay-urls.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { createNativeSha256, nativeSha256 } from '../../node/native/sha256.ts';
import { mine } from '../../node/net/proof-of-work.ts';
import { type Connection, connectRelays } from '../../node/net/relays.ts';
import { hello, summary } from '../../node/worker-session.ts';
import {
  completeSettings,
  type PartialSettings,
  readSettings,
  type SettingName,
  type Settings,
  writeSettings,
} from '../../run/settings.ts';
import { referenceDefaults } from '../../run/spec/presets.ts';
import type { Params } from '../../tensor/params.ts';
import type { RoundSummary, WorkerEvent } from '../../worker/events.ts';
import { planOf } from '../../worker/plan.ts';
import type { Store } from '../../worker/ports.ts';
import { flipped } from '../wire/messages.ts';
import { createPythonWire } from '../wire/profile.ts';
import { type History, noHistory, type PythonState, type Reference } from '../worker/session.ts';
import { startingState } from '../worker/start.ts';
import { runPythonWorker } from '../worker/strategy.ts';
import { createRegressionTrainer, type RegressionBackend } from './train-on-backend.ts';
import { openZstd } from './zstd.ts';

/** Members of the config that are settings of the same name. */
const same = [
  'rounds',
  'innerSteps',
  'localLearningRate',
  'batchSize',
  'outerLearningRate',
  'momentum',
  'topk',
  'residual',
  'codec',
  'weights',
  'maxExamples',
  'sync',
  'waitFor',
  'maxMissedHeartbeats',
  'checkpointHistory',
] as const satisfies readonly SettingName[];

/**
 * Settings, as the flags of `nostrain run-training` have them: `rounds` (default 1), `innerSteps` (500),
 * `localLearningRate` (0.01), `batchSize` (1), `outerLearningRate` (0.7), `momentum` (0.9), `topk` (1), `residual`
 * (none), `codec` (zlib), `weights` (examples), `maxExamples` (inner steps x batch size), `sync` (timeout), `waitFor`
 * (the number of a strict sync, else 1), `maxMissedHeartbeats` (3), `checkpointHistory` (4). Defaults are the Python
 * reference's.
 */
export interface TrainingWorkerConfig
  extends Partial<Connection>,
    Pick<PartialSettings, (typeof same)[number]> {
  /** A linear or mlp regression; trained in f64. */
  readonly initialState: Params;
  /** What this worker trains on. */
  readonly dataset: RegressionDataset;
  readonly relays: readonly string[];
  /** Workers with the same name and relays train together. */
  readonly run: string;
  /** Signs all this worker sends; 32 bytes, as of `loadKey` or `createSecretKey`. */
  readonly secretKey: Uint8Array;
  /** Name of this worker, where `referenceCompatible` lets it be another than its public key. */
  readonly worker?: string | undefined;
  /** Which model `initialState` must be; default what it is. */
  readonly runtime?: RegressionTask | undefined;
  /** What computes the inner steps; default `python`, the plain loop. */
  readonly backend?: RegressionBackend | undefined;
  /** The first round to play; default 0, or where the state resumed stands. */
  readonly startRound?: number | undefined;
  /** Outer momentum to start from, as a session or `nesterovOuterStep` gives it; default zeros. */
  readonly momentumState?: Params | undefined;
  /** How long a round may collect after publishing; default 2000. */
  readonly roundTimeoutMs?: number;
  /** How long to wait for `waitFor` workers; default 600000. */
  readonly joinTimeoutMs?: number;
  /** Whole seconds between heartbeats; default 60. */
  readonly heartbeatSeconds?: number;
  /** Named in heartbeats; default `relays`. */
  readonly advertisedRelays?: readonly string[] | undefined;
  /** Late gradients are folded in before the next round, or only noted; default `deferred`. */
  readonly lateGradientStrategy?: 'deferred' | 'discard' | undefined;
  /** How long to look for them; default 200. */
  readonly lateGradientTimeoutMs?: number;
  /** Rate of the step that folds them in; default `outerLearningRate`. */
  readonly lateGradientLearningRate?: number | undefined;
  /** Momentum of that step; default `momentum`. */
  readonly lateGradientMomentum?: number | undefined;
  /** Does as the Python reference does, also where that is unsafe, to train with its workers; default false. */
  readonly referenceCompatible?: boolean | undefined;
}

/** All settings: those given, checked, and the Python reference's. Throws a ConfigError that names a wrong one. */
function settingsOf(config: TrainingWorkerConfig): Settings {
  const named = [...same, 'run'] as const;
  const given: PartialSettings = Object.fromEntries(named.map((name) => [name, config[name]]));
  const seconds = {
    roundTimeout: inSeconds(config.roundTimeoutMs),
    joinTimeout: inSeconds(config.joinTimeoutMs),
    heartbeatInterval: config.heartbeatSeconds,
  };
  const entries = Object.entries({ ...writeSettings(given), ...seconds });
  const known = Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  const settings = completeSettings(
    referenceDefaults,
    { model: 'linear', relay: config.relays } as const,
    readSettings(known, 'config'),
  );
  assertCompatible(settings, config);
  const { startRound = 0 } = config;
  if (!Number.isSafeInteger(startRound) || startRound < 0) {
    throw new ConfigError('settings/value', `config: startRound is ${startRound}`, {
      hint: 'it must be a whole number from 0',
    });
  }
  return settings;
}

const inSeconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);

/** Throws where the Python reference has nothing to be compatible with. */
export function assertCompatible(
  { sync }: Settings,
  { referenceCompatible }: Pick<TrainingWorkerConfig, 'referenceCompatible'>,
): void {
  if (!referenceCompatible || sync.strategy !== 'async') return;
  throw new ConfigError('flag/sync', 'the reference has no async runs to be compatible with', {
    hint: 'give --sync timeout or strict:N',
  });
}

/** What a worker is called. A name that is not the key means something only where nobody checks. */
export function workerName(
  { worker, referenceCompatible }: Pick<TrainingWorkerConfig, 'worker' | 'referenceCompatible'>,
  key: string,
): string {
  if (worker === undefined || worker === key || referenceCompatible) return worker ?? key;
  const ways = `leave it out (this key is ${key}), or give --reference-compatible to every worker`;
  throw new ConfigError('worker/name', `--worker ${worker} is not this worker's key`, {
    hint: `peers refuse names that are not keys: ${ways}`,
  });
}

/** What a session tells, keeps and goes on from. */
export interface TrainingSessionOptions {
  /** Hears everything the worker does, in order. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /** Ends the session, which rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Where the worker stands by an earlier session or a checkpoint, instead of `initialState` and `momentumState`. */
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
 * Plays rounds of the Python reference's profile over relays: train, publish, collect, take the outer step. Throws a
 * ConfigError for a config that cannot work and a RelayError when no relay can be reached.
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
export const runTrainingSession = async (
  config: TrainingWorkerConfig,
  options: TrainingSessionOptions = {},
): Promise<TrainingSessionResult> => {
  const { openTimeoutMs = 10_000, retry = defaultRetry, eventsPerMinute, maxEventBytes } = config;
  // members that are left out stay out: the relay set decides on them
  const connection = {
    openTimeoutMs,
    retry,
    ...(eventsPerMinute === undefined ? {} : { eventsPerMinute }),
    ...(maxEventBytes === undefined ? {} : { maxEventBytes }),
  };
  const settings = settingsOf(config);
  const start = options.resume ?? startingState(config);
  return playSession({ ...config, settings, connection, start }, options);
};

/** What a session is played with once its settings are complete and its first state is known. */
interface SessionParts
  extends Pick<
    TrainingWorkerConfig,
    | 'dataset'
    | 'secretKey'
    | 'worker'
    | 'runtime'
    | 'backend'
    | 'startRound'
    | 'advertisedRelays'
    | 'lateGradientStrategy'
    | 'lateGradientTimeoutMs'
    | 'lateGradientLearningRate'
    | 'lateGradientMomentum'
    | 'referenceCompatible'
  > {
  readonly settings: Settings;
  readonly connection: Connection;
  readonly start: PythonState;
}

const FORGETFUL: Store<PythonState> = { load: async () => undefined, save: async () => undefined };

/** Plays a session to its end. */
export const playSession = (
  parts: SessionParts,
  { signal = new AbortController().signal, ...options }: TrainingSessionOptions,
): Promise<TrainingSessionResult> =>
  withScope(async (scope) => {
    const {
      settings,
      connection,
      start,
      dataset,
      referenceCompatible: isCompatible = false,
    } = parts;
    const signer = createSigner(parts.secretKey, nativeCrypto);
    const worker = workerName(parts, signer.publicKey);
    const relays = parseRelayUrls(settings.relay);
    const { runtime } = readModel(start.params);
    const report = options.onEvent ?? (() => undefined);
    const { run, codec, topk: ratio, localLearningRate: learningRate, batchSize } = settings;
    const { layout } = start.params;
    const trainer = createRegressionTrainer({
      layout,
      dataset,
      runtime: parts.runtime,
      backend: parts.backend,
      learningRate,
      batchSize,
      now: () => systemClock.now(),
    });
    const set = await connectRelays(relays, connection, signer, signal);
    scope.defer(() => set.close());
    const limits = { maxContainerBytes: mostPayloadBytes(layout), zstd: await openZstd() };
    const advertised = parts.advertisedRelays;
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
      reference: { worker: parts.worker, isCompatible, runtime, advertised },
    });
    scope.defer(() => wire.close());
    const plan = planOf(settings, {
      task: runtime,
      runtime,
      rounds: (parts.startRound ?? start.round) + settings.rounds,
      ...(isCompatible ? { weightCap: Number.MAX_SAFE_INTEGER } : {}),
    });
    report(hello(plan, trainer, wire.me, start));
    const reference: Reference = {
      isCompatible,
      examples: dataset.size,
      limits,
      late: {
        strategy: parts.lateGradientStrategy ?? 'deferred',
        learningRate: parts.lateGradientLearningRate ?? plan.outer.learningRate,
        momentum: parts.lateGradientMomentum ?? plan.outer.momentum,
        advancesMomentum: isCompatible,
        weightCap: plan.weightCap,
      },
      publishMs: connection.openTimeoutMs,
      lateWaitMs: parts.lateGradientTimeoutMs ?? 200,
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
