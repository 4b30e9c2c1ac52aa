/**
 * How a run decides its rounds. The loop trains and publishes; a strategy says what a round starts from, what counts in it and
 * which state it ends in. The loop never asks which strategy it plays: plain averaging is in averaging.ts, certified rounds are in
 * src/certified, rounds of the Python reference's profile in src/python.
 */
import type { ChunkAssignment } from '../run/chunk-assignment.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { FeatureValues } from '../run/spec/features.ts';
import type { SealedState, WorkerState } from './state.ts';

/** What the inner steps of a round start from, beside the worker's own state. */
export interface RoundStart {
  /** Digest of the shared state, in a run with tiers of its first ring. */
  readonly base: Digest;
  /** Of each ring that the worker has, in a run with tiers. */
  readonly rings?: readonly Digest[] | undefined;
  /** Workers that the parameters are divided among. */
  readonly roster: readonly WorkerId[];
  readonly assignment: ChunkAssignment;
  /** Digest of the outcome before, where rounds have outcomes. */
  readonly parent?: Digest | undefined;
  /** Keeps the whole delta in the state until the round is over, so that chunks which did not count can be taken back. */
  readonly keepsDelta?: boolean;
  /** The round is over elsewhere: its inner steps are worth the while only where an earlier session left them in the middle. */
  readonly onlyRest?: boolean;
  /** What the contribution says beside its payload of all that was learned and of the optimizer's vectors, before either is sent. */
  commit?(state: PrivateState): Promise<FeatureValues<'manifest'>>;
}

/** What a worker knows after an inner phase and nobody else does: what follows, follows from it and from what is certified. */
export interface PrivateState {
  /** All that was learned and not sent: what the payload is packed from. */
  readonly delta: Float64Array;
  /** The inner optimizer's vectors. */
  readonly moments: readonly Float32Array[];
}

/** Where a round ended. */
export interface RoundResult<S extends WorkerState = WorkerState> {
  readonly state: S;
  /** Called once the state is on disk: tells of the round and publishes what follows from it. Returns the state to go on from. */
  completed(): Promise<S>;
}

/** A round that is listened to. */
export interface OpenRound<S extends WorkerState = WorkerState> {
  /** Undefined where this worker does not train in the round. */
  readonly start: RoundStart | undefined;
  /** Whose gradients are here, with the bytes of the events that carry them; absent where the strategy tells of them itself. */
  arrived?(): ReadonlyMap<WorkerId, number>;
  /** Sends the gradient; it is on disk already. */
  publish(state: SealedState<S>): Promise<void>;
  /** Waits for the end of the round and applies it. */
  finish(state: S): Promise<RoundResult<S>>;
  /** Called in any case, also after an error. */
  close(): void;
}

/** Where a worker is between two rounds. */
export interface Standpoint<S extends WorkerState> {
  /** What the next round starts from, or what the run ends in. */
  readonly state: S;
  /** The run is over for this worker. */
  readonly isOver: boolean;
}

export interface RoundStrategy<S extends WorkerState = WorkerState> {
  /** Called before every round and after the last one. */
  prepare(state: S): Promise<Standpoint<S>>;
  /** What heartbeats call the shared state: equal digests are equal bits. */
  digestOf(state: S): Digest;
  /** In a run with tiers, of each ring that this worker has; what it calls the state is the first one then. */
  ringsOf?(state: S): readonly Digest[] | undefined;
  /**
   * Members of the run, where they are certified. Heartbeats then do not name whose work the state is made of, since it need not be compared, and
   * are as rare as so many members ask for.
   */
  membersIn?(state: S): number;
  open(state: S): Promise<OpenRound<S>>;
}
