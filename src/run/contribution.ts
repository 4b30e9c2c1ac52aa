/** What a worker sends in a round: contribution, heartbeat, telemetry; who owns which chunks; reasons of refusal. */

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
  /** Δ = before - after, of the chunks of the flat parameters that it speaks of. */
  readonly delta: PartialVector;
  /** Examples seen; absent when the worker did not say. */
  readonly examples: number | undefined;
  readonly steps: number;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  /** Raw payload, before base64. */
  readonly payloadBytes: number;
  /** JSON of every event that carries it. */
  readonly eventBytes: number;
}

/** Why an event does not count. Stable names: they are counted, shown and tested. */
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
  /** Its author is not in the roster, or has no seat. */
  | 'not-a-member'
  /** The round counts contributions of workers that were drawn for it, and its author was not. */
  | 'not-drawn'
  /** It has other slices than the tier that its author joined with. */
  | 'other-tier'
  /** A contribution to a certified run that does not say which outcome it follows. */
  | 'uncommitted'
  /** Of votes: another past, another committee, beyond what clocks allow, more than one key may say. */
  | 'other-history'
  | 'other-committee'
  | 'too-early'
  | 'too-many';

/** A contribution that does not count, and why. */
export interface Rejection {
  readonly reason: RejectReason;
  /** The key that signed it; absent when the signature itself is wrong, since then nobody is to blame. */
  readonly worker: WorkerId | undefined;
  readonly detail: string;
}

/** What a worker reports between contributions. */
export interface Heartbeat {
  readonly worker: WorkerId;
  readonly round: number;
  /** How often the next one is promised, in seconds. */
  readonly intervalSeconds: number;
  readonly examples: number | undefined;
  readonly capabilities: readonly string[];
  /** Relay hints for peers. */
  readonly relays: readonly string[];
  /** Digest of the state the worker starts `round` from. */
  readonly digest: Digest | undefined;
  /** Whose contributions made that state: the cohort of `round - 1`. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** True in the last one a worker sends. */
  readonly leaving: boolean;
  /** Settings fingerprint of the worker, in a run without a spec. */
  readonly fingerprint?: SettingsFingerprint | undefined;
  /** What features of a certified run add. */
  readonly features?: FeatureValues<'heartbeat'>;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
}

/** A heartbeat is stale when its author missed `maxMissed` intervals; a leaving one is stale at once. */
export const isStale = (
  heartbeat: Pick<Heartbeat, 'leaving' | 'createdAt' | 'intervalSeconds'>,
  nowSeconds: number,
  maxMissed: number,
): boolean =>
  heartbeat.leaving || heartbeat.createdAt + heartbeat.intervalSeconds * maxMissed < nowSeconds;

/** What is known of the shared parameters at the start of a round. */
export interface SharedMeasure {
  readonly validationLoss?: number | undefined;
  readonly bitsPerByte?: number | undefined;
  readonly accuracy?: number | undefined;
  readonly sample?: string | undefined;
}

/** What somebody trains on, as a trainer says it. */
export interface Machine {
  readonly device: string;
  /** What its products are in, where not in f32. */
  readonly half?: string;
}

/** In words: `cuda`, `cuda f16`. */
export const wordMachine = ({ device, half }: Machine): string =>
  half === undefined ? device : `${device} ${half}`;

type ManifestFields = FeatureValues<'manifest'>;

/** What a manifest says: the training loss of the worker's own steps, and what it measured before them. */
export const manifestTelemetry = (
  own: number,
  machine: Machine,
  measure: SharedMeasure | undefined,
): ManifestFields => ({
  telemetry: { own: millionths(own), ...said(machine, measure) },
  accuracy: { right: millionths(measure?.accuracy) },
});

/** What a heartbeat says. */
export const heartbeatTelemetry = (
  machine: Machine,
  measure: SharedMeasure | undefined,
): FeatureValues<'heartbeat'> => ({
  telemetry: said(machine, measure),
  accuracy: { right: millionths(measure?.accuracy) },
});

const said = (
  machine: Machine,
  { validationLoss, bitsPerByte, sample = '' }: SharedMeasure = {},
) => ({
  device: safe(wordMachine(machine)).slice(0, MOST_DEVICE).toWellFormed(),
  shared: millionths(validationLoss),
  bits: millionths(bitsPerByte),
  sample: safe(sample).slice(0, MOST_SAMPLE).toWellFormed(),
});

/** Null for what is no number, or too large for one. */
function millionths(value = Number.NaN): number | null {
  const scaled = Math.round(value * 1e6) + 0;
  return Number.isSafeInteger(scaled) ? scaled : null;
}

export interface ChunkAssignment {
  /** Names the division among the owners; undefined when every worker sends everything. */
  readonly digest: Digest | undefined;
  /** Chunks that move in this round, ascending; all of them unless the model is sent in fragments. */
  readonly moving: Uint32Array;
  /** Those of them, ascending, that a worker sends, as an owner or beside the owners; none for anybody else. */
  chunksOf(worker: WorkerId): Uint32Array;
  /** The most chunks any worker has. */
  readonly most: number;
}
