/**
 * The plan of a worker: the settings that all workers of a run share, and those that this one may choose. Checked
 * elsewhere.
 */
import type { OuterSettings } from '../consensus/outer/nesterov.ts';
import { type Aggregation, usualAggregation } from '../run/aggregation.ts';
import { assertPlayable } from '../run/removed.ts';
import { aggregationOf, fixedLocalSteps, type LocalSteps, type Settings } from '../run/settings.ts';
import { type SettingsFingerprint, settingsFingerprint } from '../run/settings-fingerprint.ts';

/** Settings that a plan takes over unchanged. */
const taken = [
  'run',
  'rounds',
  'checkpointHistory',
  'innerSteps',
  'seed',
  'residual',
  'owners',
  'fragments',
  'weights',
  'normalize',
  'sync',
  'peers',
  'maxMissedHeartbeats',
] as const satisfies readonly (keyof Settings)[];

/** What a worker does, as `completePlan` returns it. */
export interface Plan extends Pick<Settings, (typeof taken)[number]> {
  readonly task: string;
  /** What people call this worker. */
  readonly name?: string | undefined;
  /** Runtime name written to checkpoints of the Python profile. */
  readonly runtime: string;
  /** Settings fingerprint of this worker, for peers to compare; only in runs without a spec. */
  readonly fingerprint?: SettingsFingerprint | undefined;
  readonly localSteps: LocalSteps;
  readonly outer: OuterSettings;
  /** Tier that this worker trains, if the run has helpers. */
  readonly tier?: number | undefined;
  /** Maximum weight of a contribution, in examples. */
  readonly weightCap: number;
  readonly aggregation: Aggregation;
  /** Norms above `normBound` x the lower median are clipped to it; 0 clips nothing. */
  readonly normBound: number;
  readonly roundTimeoutMs: number;
  /** Start of the round's timeout: when this worker published, or when the last contribution arrived. */
  readonly timeoutSince: 'publishing' | 'last-contribution';
  /** Time for relays to accept a contribution in milliseconds, if longer than the round's timeout. */
  readonly publishTimeoutMs: number;
  /** Retries publishing while relays are offline and the round has time. */
  readonly waitsForRelays: boolean;
  /** Throws `round/began` if the others are past the first round when this worker joins. */
  readonly refusesLate: boolean;
  /** Live workers to see before the first round; 1 starts at once. */
  readonly waitFor: number;
  readonly joinTimeoutMs: number;
  readonly heartbeatSeconds: number;
  /** Sends a heartbeat at the start of every round even if relays limit rates. */
  readonly heartbeatEachRound: boolean;
  /** Waits at the end of the run until peers have reported their final state. */
  readonly hearsFinalStates: boolean;
  /** Tokens in one example (context length), for the counters; 1 for regression. */
  readonly tokensPerExample: number;
  /** Bytes of validation text per token, for the loss in bits per byte; 0 for other data. */
  readonly bytesPerToken: number;
  /** Evaluates the shared parameters after each round; in a demo one worker does it for all. */
  readonly evaluate: boolean;
  /** Validation batches evaluated per round; the last round evaluates all. */
  readonly evaluateBatches: number;
  readonly writeSample: ((params: Float32Array, round: number) => Promise<string>) | undefined;
}

const usual = {
  task: 'a model',
  runtime: 'own',
  checkpointHistory: 4,
  localSteps: fixedLocalSteps,
  seed: 0,
  outer: { learningRate: 1, momentum: 0 },
  residual: 'feedback',
  owners: 0,
  fragments: 1,
  weights: 'equal',
  weightCap: 1,
  normalize: 'workers',
  aggregation: usualAggregation,
  normBound: 1.5,
  sync: { strategy: 'timeout' },
  roundTimeoutMs: 60_000,
  timeoutSince: 'publishing',
  publishTimeoutMs: 0,
  waitsForRelays: true,
  refusesLate: true,
  peers: [],
  waitFor: 1,
  joinTimeoutMs: 600_000,
  heartbeatSeconds: 60,
  maxMissedHeartbeats: 3,
  heartbeatEachRound: false,
  hearsFinalStates: true,
  tokensPerExample: 1,
  bytesPerToken: 0,
  evaluate: false,
  evaluateBatches: 1,
  writeSample: undefined,
} as const satisfies Partial<Plan>;

/** Completes a plan; the default is plain averaging of all workers. */
export const completePlan = (
  given: Partial<Plan> & Pick<Plan, 'run' | 'rounds' | 'innerSteps'>,
): Plan => ({ ...usual, ...given });

/** Makes a plan from settings; `task` fills in the rest. Throws a ConfigError if only an older version plays it. */
export function planOf(settings: Settings, task: Partial<Plan>): Plan {
  assertPlayable(settings);
  const { sync, innerSteps, batchSize } = settings;
  const wanted = sync.strategy === 'strict' ? sync.workers : 1;
  const same = Object.fromEntries(taken.map((name) => [name, settings[name]]));
  return completePlan({
    ...(same as Pick<Settings, (typeof taken)[number]>),
    task: settings.model,
    fingerprint: settingsFingerprint(settings),
    localSteps: { innerSeconds: settings.innerSeconds, leastSteps: settings.leastSteps },
    outer: { learningRate: settings.outerLearningRate, momentum: settings.momentum },
    weightCap: settings.maxExamples || innerSteps * batchSize,
    aggregation: aggregationOf(settings),
    roundTimeoutMs: settings.roundTimeout * 1000,
    waitFor: settings.waitFor || wanted,
    joinTimeoutMs: settings.joinTimeout * 1000,
    heartbeatSeconds: settings.heartbeatInterval,
    ...task,
  });
}
