/** What every worker of a run does the same, and what this one may choose: plain settings, checked elsewhere. */
import type { OuterSettings } from '../consensus/outer/nesterov.ts';
import { type Aggregation, usualAggregation } from '../run/aggregation.ts';
import { aggregationOf, fixedLocalSteps, type LocalSteps, type Settings } from '../run/settings.ts';
import { type SettingsFingerprint, settingsFingerprint } from '../run/settings-fingerprint.ts';
import type { Range } from '../tensor/partial-vector.ts';

/** Settings that a plan takes as they are. */
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

/** What a worker is to do, as `completePlan` gives it. */
export interface Plan extends Pick<Settings, (typeof taken)[number]> {
  readonly task: string;
  /** The reference's name for it, in checkpoints. */
  readonly runtime: string;
  /** Settings fingerprint of this worker, for peers to compare; only in runs without a spec. */
  readonly fingerprint?: SettingsFingerprint | undefined;
  readonly localSteps: LocalSteps;
  readonly outer: OuterSettings;
  /** In a run with tiers: the slices that this worker has, and how many values the full model has. */
  readonly tiers:
    | {
        readonly slices: readonly Range[];
        readonly size: number;
        /** Which tier this worker trains, where some workers help. */
        readonly tier?: number;
      }
    | undefined;
  /** No contribution weighs more than this many examples. */
  readonly weightCap: number;
  readonly aggregation: Aggregation;
  /** Norms above `normBound` x the lower median are clipped to it; 0 clips nothing. */
  readonly normBound: number;
  readonly roundTimeoutMs: number;
  /** From when the round's timeout counts: since this worker published, or since the last contribution came. */
  readonly timeoutSince: 'publishing' | 'last-contribution';
  /** How long relays may take to accept a gradient, where that is longer than the round's timeout. */
  readonly publishTimeoutMs: number;
  /** Tries to publish again while relays are away and the round has time. */
  readonly waitsForRelays: boolean;
  /** Ends with `round/began` where the others are past the first round when this worker comes. */
  readonly refusesLate: boolean;
  /** Live workers to see before the first round; 1 starts at once. */
  readonly waitFor: number;
  readonly joinTimeoutMs: number;
  readonly heartbeatSeconds: number;
  /** One heartbeat at the start of every round, also where relays limit what they are sent. */
  readonly heartbeatEachRound: boolean;
  /** Waits at the end of the run until peers have said which state they ended in. */
  readonly hearsFinalStates: boolean;
  /** Tokens in one example (context length), for the counters; 1 for regression. */
  readonly tokensPerExample: number;
  /** Validation text bytes per counted token, for the loss in bits per byte; 0 where there is no text. */
  readonly bytesPerToken: number;
  /** Evaluate the shared parameters after each round; the demo lets one worker do it for all. */
  readonly evaluate: boolean;
  /** Windows of the validation slice are cut into batches: how many per round; the last round takes all. */
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
  tiers: undefined,
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

/** A whole plan: plain averaging from everybody, but for what is given. */
export const completePlan = (
  given: Partial<Plan> & Pick<Plan, 'run' | 'rounds' | 'innerSteps'>,
): Plan => ({ ...usual, ...given });

/** The plan that settings make; what they leave open comes from the task. */
export function planOf(settings: Settings, task: Partial<Plan>): Plan {
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
