/** What a session of the Python reference's profile is told: its config, and the plan's settings in it. */
import { ConfigError } from '../../base/errors.ts';
import type { RegressionDataset, RegressionTask } from '../../model/data/regression.ts';
import type { Connection } from '../../node/net/relays.ts';
import {
  completeSettings,
  type PartialSettings,
  type ResidualRule,
  readSettings,
  type Settings,
  writeSettings,
} from '../../run/settings.ts';
import { referenceDefaults } from '../../run/spec/presets.ts';
import type { Sync } from '../../run/sync.ts';
import type { Params } from '../../tensor/params.ts';
import type { BlockCodec } from '../codec/container.ts';
import type { RegressionBackend } from './train-on-backend.ts';

/** Where there is a default it is the Python reference's, unless it says otherwise. */
export interface TrainingWorkerConfig extends Partial<Connection> {
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
  /** How many to play; default 1. */
  readonly rounds?: number;
  /** The first of them; default 0, or where the state resumed stands. */
  readonly startRound?: number | undefined;
  /** Outer momentum to start from, as a session or `nesterovOuterStep` gives it; default zeros. */
  readonly momentumState?: Params | undefined;
  /** Steps of gradient descent in each round; default 500. */
  readonly innerSteps?: number;
  /** Rate of those steps; default 0.01. */
  readonly localLearningRate?: number;
  /** Examples in each of them; default 1. */
  readonly batchSize?: number;
  /** Rate of the outer step; default 0.7. */
  readonly outerLearningRate?: number;
  /** Nesterov momentum of the outer step; default 0.9. */
  readonly momentum?: number;
  /** Share of the values that is sent; default 1. */
  readonly topk?: number;
  /** What becomes of the values that are not; default `none`: they are dropped. */
  readonly residual?: ResidualRule;
  /** How payloads are compressed; default `zlib`. */
  readonly codec?: BlockCodec;
  /** How contributions are weighted; default by `examples`. */
  readonly weights?: Settings['weights'];
  /** No contribution weighs more, unless `referenceCompatible`; default inner steps x batch size. */
  readonly maxExamples?: number;
  /** When a round closes; default `timeout`. */
  readonly sync?: Sync;
  /** How long a round may collect after publishing; default 2000. */
  readonly roundTimeoutMs?: number;
  /** Live workers to see before round 0; default the number of `strict`, else 1. */
  readonly waitFor?: number;
  /** How long to wait for them; default 600000. */
  readonly joinTimeoutMs?: number;
  /** Whole seconds between heartbeats; default 60. */
  readonly heartbeatSeconds?: number;
  /** Heartbeats after which a silent worker counts as gone; default 3. */
  readonly maxMissedHeartbeats?: number;
  /** Named in heartbeats; default `relays`. */
  readonly advertisedRelays?: readonly string[] | undefined;
  /** Checkpoints kept on the relays; default 4. */
  readonly checkpointHistory?: number;
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

/** The members that are settings of the same name. */
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
  'run',
] satisfies readonly (keyof TrainingWorkerConfig & keyof Settings)[];

/** All settings: those given, checked, and the Python reference's. Throws a ConfigError that names a wrong one. */
export function settingsOf(config: TrainingWorkerConfig): Settings {
  const given: PartialSettings = Object.fromEntries(same.map((name) => [name, config[name]]));
  const seconds = {
    roundTimeout: inSeconds(config.roundTimeoutMs),
    joinTimeout: inSeconds(config.joinTimeoutMs),
    heartbeatInterval: config.heartbeatSeconds,
  };
  const asked = Object.entries({ ...writeSettings(given), ...seconds });
  const known = Object.fromEntries(asked.filter(([, value]) => value !== undefined));
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
  throw new ConfigError('worker/name', `--worker ${worker} is not this worker's key`, {
    hint: `peers refuse names that are not keys: leave it out (this key is ${key}), or give --reference-compatible to every worker`,
  });
}
