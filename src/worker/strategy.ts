/**
 * The interface of a round strategy: what a round starts from, what counts in it, and which state it ends in. The loop
 * does not depend on the strategy (averaging.ts, src/certified, src/python).
 */

import type { LocalGradient, RoundRequest } from '../network/wire/wire.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { FeatureValues } from '../run/spec/features.ts';
import type { TrainTask } from './ports.ts';
import type { SealedState, WorkerState } from './state.ts';

/** What a round starts from, apart from the worker's own state. */
export interface RoundStart
  extends Pick<LocalGradient, 'parent'>,
    Pick<TrainTask, 'trains' | 'without'>,
    Pick<RoundRequest, 'base' | 'assignment' | 'sliceDigests'> {
  readonly roster: readonly WorkerId[];
  /** Keeps the full delta in the state until the round is over, so that chunks that did not count can return. */
  readonly keepsDelta?: boolean;
  /** The round is already decided: only finish an inner phase that an earlier session began. */
  readonly onlyRest?: boolean;
  /** Computes manifest features from the delta and the optimizer's vectors before either is sent. */
  commit?(state: PrivateState): Promise<FeatureValues<'manifest'>>;
}

/** What only this worker knows after an inner phase. */
export interface PrivateState {
  /** Full delta that the payload is packed from. */
  readonly delta: Float64Array;
  readonly moments: readonly Float32Array[];
}

export interface RoundResult<S extends WorkerState = WorkerState> {
  readonly state: S;
  /**
   * Called once the state is saved: reports the round and publishes what follows. Returns the state to continue from.
   */
  completed(): Promise<S>;
}

export interface OpenRound<S extends WorkerState = WorkerState> {
  /** Undefined if this worker does not train in the round. */
  readonly start: RoundStart | undefined;
  /**
   * Returns the workers whose contributions have arrived, with the bytes of their events; absent if the strategy
   * reports them itself.
   */
  arrived?(): ReadonlyMap<WorkerId, number>;
  publish(state: SealedState<S>): Promise<void>;
  /** Waits for the end of the round and applies its result. */
  finish(state: S): Promise<RoundResult<S>>;
  /** Always called, also after an error. */
  close(): void;
}

export interface Standpoint<S extends WorkerState> {
  /** State that the next round starts from, or the final state. */
  readonly state: S;
  readonly isOver: boolean;
}

export interface RoundStrategy<S extends WorkerState = WorkerState> {
  /** Called before every round and after the last one. */
  prepare(state: S): Promise<Standpoint<S>>;
  /** Returns the digest of the shared state for heartbeats: equal digests mean equal bits. */
  digestOf(state: S): Digest;
  /** In a run with tiers: returns the digest of each slice that this worker has; `digestOf` then returns the first. */
  sliceDigestsOf?(state: S): readonly Digest[] | undefined;
  /**
   * Returns the number of members of a certified run, whose heartbeats name no cohort and are rarer the more members
   * there are.
   */
  membersIn?(state: S): number;
  open(state: S): Promise<OpenRound<S>>;
}
