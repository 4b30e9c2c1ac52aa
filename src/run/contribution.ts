/**
 * What a worker sends in a round: contribution, heartbeat, telemetry; which worker owns which chunks; reasons of
 * refusal.
 */

import { safe } from '../base/errors.ts';
import type { PartialVector } from '../tensor/partial-vector.ts';
import type { Digest, WorkerId } from './ids.ts';
import type { SettingsFingerprint } from './settings-fingerprint.ts';
import { MOST_DEVICE, MOST_SAMPLE } from './spec/feature-fields.ts';
import type { FeatureValues } from './spec/features.ts';

/** What one worker sent for a round, verified and decoded. */
export interface Contribution {
  readonly worker: WorkerId;
  readonly eventId: string;
  readonly round: number;
  /** Digest of the state the worker started the round from. */
  readonly base: Digest;
  /** Δ = before - after, for the chunks of the flat parameters that it covers. */
  readonly delta: PartialVector;
  /** Examples seen; absent if the worker did not report them. */
  readonly examples: number | undefined;
  readonly steps: number;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  /** Raw payload, before base64. */
  readonly payloadBytes: number;
  /** JSON of every event that carries it. */
  readonly eventBytes: number;
}

/** Why an event does not count. The names are stable: they are counted, shown and tested. */
export type RejectReason =
  | 'malformed'
  | 'unsigned'
  | 'bad-id'
  | 'bad-signature'
  | 'worker-key-mismatch'
  | 'other-run'
  | 'wrong-round'
  | 'base-mismatch'
  | 'wrong-shape'
  | 'too-large'
  | 'unknown-codec'
  | 'other-roster'
  | 'payload-missing'
  | 'not-finite'
  | 'bad-index'
  | 'from-the-future'
  /** The author is not in the roster, or has no seat. */
  | 'not-a-member'
  /** The round only counts workers drawn for it, and the author was not drawn. */
  | 'not-drawn'
  /** It has the slices of another tier than its author joined with. */
  | 'other-tier'
  /** A contribution to a certified run that does not name the outcome it follows. */
  | 'uncommitted'
  /** For votes: another history, another committee, beyond the clock tolerance, more votes than a key may cast. */
  | 'other-history'
  | 'other-committee'
  | 'too-early'
  | 'too-many'
  /** For messages between validators: of a stranger, dated wrong, or replayed. */
  | 'unauthorized'
  /** For contributions and merges that validators score: not good enough, or not what their author says. */
  | 'low-score'
  | 'not-the-mean';

/** A contribution that does not count, and why. */
export interface Rejection {
  readonly reason: RejectReason;
  /** The key that signed it; absent if the signature is invalid, because then no key is responsible. */
  readonly worker: WorkerId | undefined;
  readonly detail: string;
}

/** What a worker reports between contributions. */
export interface Heartbeat {
  readonly worker: WorkerId;
  /** What people call the worker. */
  readonly name?: string | undefined;
  readonly round: number;
  /** Promised interval until the next heartbeat, in seconds. */
  readonly intervalSeconds: number;
  readonly examples: number | undefined;
  readonly capabilities: readonly string[];
  /** Relay hints for peers. */
  readonly relays: readonly string[];
  /** Digest of the state the worker starts `round` from. */
  readonly digest: Digest | undefined;
  /** Cohort of `round - 1`, whose contributions made that state. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** True in the last heartbeat of a worker. */
  readonly leaving: boolean;
  /** Settings fingerprint of the worker, in a run without a spec. */
  readonly fingerprint?: SettingsFingerprint | undefined;
  /** Fields of the features of a certified run. */
  readonly features?: FeatureValues<'heartbeat'>;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
}

/** Reports whether the author missed `maxMissed` intervals, or is leaving. */
export const isStale = (
  heartbeat: Pick<Heartbeat, 'leaving' | 'createdAt' | 'intervalSeconds'>,
  nowSeconds: number,
  maxMissed: number,
): boolean =>
  heartbeat.leaving || heartbeat.createdAt + heartbeat.intervalSeconds * maxMissed < nowSeconds;

/** Measurements of the shared parameters between two rounds. */
export interface SharedMeasure {
  /** Loss of the shared parameters on a slice that no worker trains on; absent if not evaluated. */
  readonly validationLoss?: number | undefined;
  /** The same loss in bits per byte of text, comparable between tokenizers. */
  readonly bitsPerByte?: number | undefined;
  /** Accuracy of the shared parameters on that slice, from 0 to 1; only for classifiers. */
  readonly accuracy?: number | undefined;
  /** Text written by the shared parameters; absent for other models. */
  readonly sample?: string | undefined;
}

/** The device of a worker, as its trainer reports it. */
export interface Machine {
  readonly device: string;
  /** Number format of matrix products, if not f32. */
  readonly half?: string;
}

/** Formats a device such as `cuda` or `cuda f16`. */
export const wordMachine = ({ device, half }: Machine): string =>
  half === undefined ? device : `${device} ${half}`;

type ManifestFields = FeatureValues<'manifest'>;

/**
 * Returns the telemetry of a manifest: the mean training loss of the worker's steps, and its measurements before them.
 */
export const manifestTelemetry = (
  localLoss: number,
  machine: Machine,
  measure: SharedMeasure | undefined,
): ManifestFields => ({
  telemetry: { own: millionths(localLoss), ...telemetryOf(machine, measure) },
  accuracy: { right: millionths(measure?.accuracy) },
});

/** Returns the telemetry of a heartbeat. */
export const heartbeatTelemetry = (
  machine: Machine,
  measure: SharedMeasure | undefined,
): FeatureValues<'heartbeat'> => ({
  telemetry: telemetryOf(machine, measure),
  accuracy: { right: millionths(measure?.accuracy) },
});

const telemetryOf = (
  machine: Machine,
  { validationLoss, bitsPerByte, sample = '' }: SharedMeasure = {},
) => ({
  device: safe(wordMachine(machine)).slice(0, MOST_DEVICE).toWellFormed(),
  shared: millionths(validationLoss),
  bits: millionths(bitsPerByte),
  sample: safe(sample).slice(0, MOST_SAMPLE).toWellFormed(),
});

/** Returns a value in millionths; null if it is not a number or too large. */
function millionths(value = Number.NaN): number | null {
  const scaled = Math.round(value * 1e6) + 0;
  return Number.isSafeInteger(scaled) ? scaled : null;
}

export interface ChunkAssignment {
  /** Digest of the assignment of chunks to owners; undefined if every worker sends everything. */
  readonly digest: Digest | undefined;
  /** Chunks that are sent in this round, ascending; all of them unless the model is sent in fragments. */
  readonly moving: Uint32Array;
  /** Chunks that a worker sends, ascending, as an owner or in addition to the owners; empty for any other key. */
  chunksOf(worker: WorkerId): Uint32Array;
  /** The maximum number of chunks of one worker. */
  readonly most: number;
}
