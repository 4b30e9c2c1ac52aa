/** One worker's compressed pseudo-gradient for one round, verified and decoded; and why another one is out. */
import type { PartialVector } from '../tensor/partial-vector.ts';
import type { Digest, WorkerId } from './ids.ts';

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
  /** It has other rings than the tier of width that its author joined with. */
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
