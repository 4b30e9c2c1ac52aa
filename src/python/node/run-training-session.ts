/** Runs a worker of the Python reference's profile, from a config to its final state. */
import { defaultRetry, systemClock, withScope } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { readModel } from '../../formats/regression-state.ts';
import type { RegressionTask } from '../../model/data/regression.ts';
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
import { type StartingOptions, startingState } from '../worker/start.ts';
import { runPythonWorker } from '../worker/strategy.ts';
import { createRegressionTrainer, type RegressionBackend } from './train-on-backend.ts';
import { openZstd } from './zstd.ts';

/** Members of the config that are settings with the same name. */
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
 * Config of a training session. Settings, as in the flags of `nostrain run-training`: `rounds` (1), `innerSteps` (500),
 * `localLearningRate` (0.01), `batchSize` (1), `outerLearningRate` (0.7), `momentum` (0.9), `topk` (1), `residual`
 * (none), `codec` (zlib), `weights` (examples), `maxExamples` (inner steps x batch size), `sync` (timeout), `waitFor`
 * (the number of a strict sync, else 1), `maxMissedHeartbeats` (3), `checkpointHistory` (4). Defaults are the Python
 * reference's.
 */
export interface TrainingWorkerConfig
  extends Partial<Connection>,
    Omit<StartingOptions, 'momentumName'>,
    Pick<PartialSettings, (typeof same)[number]> {
  readonly relays: readonly string[];
  /** Workers with the same name and relays train together. */
  readonly run: string;
  /** Key that signs all events of this worker: 32 bytes, for example from `loadKey` or `createSecretKey`. */
  readonly secretKey: Uint8Array;
  /** Name of this worker; other than its public key only with `referenceCompatible`. */
  readonly worker?: string | undefined;
  /** Required model of `initialState`; default any. */
  readonly runtime?: RegressionTask | undefined;
  /** Backend of the inner steps; default `python`, the plain loop. */
  readonly backend?: RegressionBackend | undefined;
  /** How long a round collects after publishing; default 2000. */
  readonly roundTimeoutMs?: number;
  /** How long to wait for `waitFor` workers; default 600000. */
  readonly joinTimeoutMs?: number;
  /** Whole seconds between heartbeats; default 60. */
  readonly heartbeatSeconds?: number;
  /** Relays named in heartbeats; default `relays`. */
  readonly advertisedRelays?: readonly string[] | undefined;
  /** Whether late gradients are applied before the next round (`deferred`, default) or only recorded (`discard`). */
  readonly lateGradientStrategy?: 'deferred' | 'discard' | undefined;
  /** Time limit of the query for late gradients; default 200. */
  readonly lateGradientTimeoutMs?: number;
  /** Learning rate of the step that applies them; default `outerLearningRate`. */
  readonly lateGradientLearningRate?: number | undefined;
  /** Momentum of that step; default `momentum`. */
  readonly lateGradientMomentum?: number | undefined;
  /** Behaves like the Python reference even where that is unsafe, to train with its workers; default false. */
  readonly referenceCompatible?: boolean | undefined;
}

/** Returns the checked settings of a config, completed with the Python reference's defaults. Throws a ConfigError. */
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
      hint: 'use an integer of at least 0',
    });
  }
  return settings;
}

const inSeconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);

/** Throws a ConfigError for a setting that the Python reference does not have. */
export function assertCompatible(
  { sync }: Settings,
  { referenceCompatible }: Pick<TrainingWorkerConfig, 'referenceCompatible'>,
): void {
  if (!referenceCompatible || sync.strategy !== 'async') return;
  throw new ConfigError('flag/sync', 'the Python reference has no async runs', {
    hint: 'use --sync timeout or strict:N, or omit --reference-compatible',
  });
}

/** Returns the name of a worker. Throws a ConfigError for a name other than its key, which peers would refuse. */
export function workerName(
  { worker, referenceCompatible }: Pick<TrainingWorkerConfig, 'worker' | 'referenceCompatible'>,
  key: string,
): string {
  if (worker === undefined || worker === key || referenceCompatible) return worker ?? key;
  const ways = `omit it (this key is ${key}), or start every worker with --reference-compatible`;
  throw new ConfigError('worker/name', `--worker ${worker} is not this worker's key`, {
    hint: `peers refuse names that are not keys: ${ways}`,
  });
}

/** Options of a session: where it reports, what it stores and what it resumes. */
export interface TrainingSessionOptions {
  /** Called with everything the worker does, in order. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /** Aborts the session, which rejects with the reason. */
  readonly signal?: AbortSignal;
  /** State from an earlier session or a checkpoint; replaces `initialState` and `momentumState`. */
  readonly resume?: PythonState | undefined;
  /** Stores the state after each round, so that a killed session can be resumed; default no store. */
  readonly store?: Store<PythonState> | undefined;
  /** Called with the trace of each completed round. */
  readonly keep?: Reference['keep'];
}

/** The result of a session. */
export interface TrainingSessionResult {
  /** Name of this worker. */
  readonly worker: string;
  readonly runtime: RegressionTask;
  /** State after the last round, f64. */
  readonly state: Params;
  /** Outer momentum after the last round, in the sign of after - before: pass it as `momentumState` to continue. */
  readonly momentum: Params;
  /** Rounds, oldest first. */
  readonly rounds: readonly RoundSummary[];
  /** The rounds in the Python reference's records, and late gradients. */
  readonly history: History;
  /** Complete state of the worker: pass it as `resume` to continue. */
  readonly workerState: PythonState;
}

/**
 * Plays rounds of the Python reference's profile over relays: train, publish, collect, take the outer step. Throws a
 * ConfigError for an invalid config and a RelayError if no relay can be reached.
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
  // omitted members stay omitted, so that the relay set uses its defaults
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

/** Parts of a session with complete settings and a first state. */
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

const noticeTo = (report: (event: WorkerEvent) => void) => (message: string) =>
  report({ type: 'notice', message });

/** Plays a session until its last round. */
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
    const relays = await connectRelays(parseRelayUrls(settings.relay), connection, signer, signal);
    scope.defer(() => relays.close());
    const limits = { maxContainerBytes: mostPayloadBytes(layout), zstd: await openZstd() };
    const advertised = parts.advertisedRelays;
    const { wire, events } = createPythonWire({
      run,
      layout,
      relays,
      signer,
      mine,
      onNotice: noticeTo(report),
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
