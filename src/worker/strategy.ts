/**
 * How a run decides its rounds: what a round starts from, what counts in it and which state it ends in. The loop never
 * asks which strategy it plays (averaging.ts, src/certified, src/python).
 */
import type { ChunkAssignment } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { FeatureValues } from '../run/spec/features.ts';
import type { SealedState, WorkerState } from './state.ts';

/** What the inner steps of a round start from, beside the worker's own state. */
export interface RoundStart {
  /** Digest of the shared state, in a run with tiers of its first slice. */
  readonly base: Digest;
  /** Of each slice that the worker has, in a run with tiers. */
  readonly sliceDigests?: readonly Digest[] | undefined;
  readonly roster: readonly WorkerId[];
  readonly assignment: ChunkAssignment;
  /** Digest of the outcome before, where rounds have outcomes. */
  readonly parent?: Digest | undefined;
  /** Keeps the whole delta in the state until the round is over, to take back chunks that did not count. */
  readonly keepsDelta?: boolean;
  /** The round is over elsewhere: only a phase that an earlier session began is finished. */
  readonly onlyRest?: boolean;
  /** Features of the manifest that follow from the delta and the optimizer's vectors, before either is sent. */
  commit?(state: PrivateState): Promise<FeatureValues<'manifest'>>;
}

/** What a worker alone knows after an inner phase. */
export interface PrivateState {
  /** All that was learned and not sent: what the payload is packed from. */
  readonly delta: Float64Array;
  readonly moments: readonly Float32Array[];
}

export interface RoundResult<S extends WorkerState = WorkerState> {
  readonly state: S;
  /**
   * Called once the state is on disk: reports the round and publishes what follows. Returns the state to go on from.
   */
  completed(): Promise<S>;
}

export interface OpenRound<S extends WorkerState = WorkerState> {
  /** Undefined where this worker does not train in the round. */
  readonly start: RoundStart | undefined;
  /** Whose gradients are here, with the bytes of their events; absent where the strategy reports them itself. */
  arrived?(): ReadonlyMap<WorkerId, number>;
  publish(state: SealedState<S>): Promise<void>;
  /** Waits for the end of the round and applies it. */
  finish(state: S): Promise<RoundResult<S>>;
  /** Called in any case, also after an error. */
  close(): void;
}

export interface Standpoint<S extends WorkerState> {
  /** What the next round starts from, or what the run ends in. */
  readonly state: S;
  readonly isOver: boolean;
}

export interface RoundStrategy<S extends WorkerState = WorkerState> {
  /** Called before every round and after the last one. */
  prepare(state: S): Promise<Standpoint<S>>;
  /** What heartbeats call the shared state: equal digests are equal bits. */
  digestOf(state: S): Digest;
  /** In a run with tiers, of each slice that this worker has; what it calls the state is the first one then. */
  sliceDigestsOf?(state: S): readonly Digest[] | undefined;
  /** Members of a certified run: heartbeats name no cohort then, and are as rare as so many members ask for. */
  membersIn?(state: S): number;
  open(state: S): Promise<OpenRound<S>>;
}
