/**
 * What a wire profile is: which events carry heartbeats and gradients, and how a payload is brought in. native-profile.ts is the
 * nostrain protocol; src/python brings the profile of the Python reference.
 */

import type { Contribution } from '../../run/contribution.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { Filter } from '../transport/filter.ts';
import type { Judged } from './judged.ts';
import type { OwnGradient, RoundRequest, Sealed, SealedGradient, WireOptions } from './wire.ts';

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
  /** The name of this worker, where the profile has names that are no keys. */
  readonly worker?: string | undefined;
  /** Relays named in heartbeats, without secrets; default those that the wire was told to advertise. */
  readonly advertised?: readonly string[] | undefined;
  readonly heartbeatFilter: Filter;
  /** The newest gradients of the run; absent where no filter finds those. */
  readonly latestFilter?: Filter;
  /** The round that such an event is of. */
  roundOf?(event: SignedEvent): number | undefined;
  readonly capabilities: readonly string[];
  /** A gradient is as good as a heartbeat: who signs one is there, and heartbeats beside it are left out. */
  readonly gradientsAreHeartbeats: boolean;
  buildHeartbeat(heartbeat: Heartbeat): EventDraft;
  readHeartbeat(event: SignedEvent): Judged<Heartbeat>;
  seal(gradient: OwnGradient): Promise<SealedGradient>;
  /** Throws a `TypeError` when it is not one of ours. */
  open(sealed: Sealed, place: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  send(sealed: Sealed): Sending;
  openRound(request: RoundRequest): RoundReader;
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

/** Which events a run is made of: ours, or those of the Python reference. */
export type ProfileName = 'nostrain/1' | 'nostrain/0';

/** Makes the profile of a wire. */
export type CreateProfile = (options: ProfileOptions) => Profile;
