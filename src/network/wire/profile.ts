/** What two wire profiles do differently: which events carry beats and gradients, and how a payload is brought in. */

import type { LateGradient } from '../../python/wire/late-record.ts';
import type { Beat } from '../../run/beat.ts';
import type { Contribution } from '../../run/contribution.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { Filter } from '../transport/filter.ts';
import type { Judged } from './judged.ts';
import type {
  CheckpointSent,
  LateRequest,
  OwnCheckpoint,
  OwnGradient,
  RoundRequest,
  Sealed,
  SealedGradient,
  WireOptions,
} from './wire.ts';

/** A contribution whose payload is still on its way. */
export interface Pending {
  readonly worker: WorkerId;
  readonly done: Promise<Judged<Contribution>>;
  progress(): Progress;
  /** Gives it up. */
  stop(): void;
}

export type Reading = Judged<Contribution> | Pending;

/** Reads the contributions of one round. */
export interface RoundReader {
  readonly filter: Filter;
  /** Somebody wants to see the events that count. */
  readonly keepsEvents?: boolean;
  /** Where the filter cannot be exact: whether an event is of this run and round at all; others are nobody's fault. */
  concerns?(event: SignedEvent): boolean;
  /** The round an event says it is of. */
  roundOf(event: SignedEvent): number | undefined;
  read(event: SignedEvent, round: number): Reading;
  close(): void;
}

/** What a profile works with: the options of the wire with their defaults. */
export interface ProfileOptions extends WireOptions {
  readonly sha256: Sha256;
  /** Signs, after the work that relays want of small events (NIP-13). */
  signWorked(draft: EventDraft): Promise<SignedEvent>;
  /** Aborted when the wire is closed: nothing is sent any more. */
  readonly signal: AbortSignal;
}

export interface Profile {
  readonly beatFilter: Filter;
  readonly capabilities: readonly string[];
  /** A gradient is as good as a beat: who signs one is there, and beats beside it are left out. */
  readonly gradientsBeat: boolean;
  buildBeat(beat: Beat): EventDraft;
  readBeat(event: SignedEvent): Judged<Beat>;
  seal(gradient: OwnGradient): Promise<SealedGradient>;
  /** Throws a `TypeError` when it is not one of ours. */
  open(sealed: Sealed, place: Pick<RoundRequest, 'round' | 'shares'>): PartialVector;
  send(sealed: Sealed): Sending;
  openRound(request: RoundRequest): RoundReader;
  checkpoint(own: OwnCheckpoint): CheckpointSent | undefined;
  late(request: LateRequest): Promise<readonly LateGradient[]>;
  close(): void;
}

/** What every reader holds a gradient against. */
export const contextOf = (
  { base, anyBase }: RoundRequest,
  round: number,
  nowMs: number,
): { round: number; base: Digest; checkBase: boolean; nowSeconds: number } => ({
  round,
  base,
  checkBase: anyBase === undefined,
  nowSeconds: nowMs / 1000,
});
