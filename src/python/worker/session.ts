/** What the loop knows more in a run of the reference's profile: how to treat late gradients, and who wants to know what. */
import type { Mean } from '../../consensus/aggregate/mean.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Sending, Tracked } from '../../network/transport/delivery.ts';
import type { CheckpointSent } from '../../network/wire/wire.ts';
import type { Params, Vector } from '../../tensor/params.ts';
import type { WorkerState } from '../../worker/state.ts';
import type { ContainerLimits } from '../codec/container.ts';
import type { LateGradient } from '../wire/late-record.ts';
import type { LateRule } from './reconcile.ts';

export interface Reference {
  /**
   * Does as the reference does, also where that is unsafe, so that mixed fleets end in the same bits. What it changes:
   * docs/migrating-from-python.md.
   */
  readonly isCompatible: boolean;
  /** Examples of this worker's dataset, for its heartbeats. */
  readonly examples: number;
  readonly late: LateRule;
  /** How long relays may take to accept a gradient; its rounds may be shorter. */
  readonly publishMs: number;
  /** How long relays may take to tell of late gradients. */
  readonly lateWaitMs: number;
  /** Of the payloads of late gradients. */
  readonly limits: ContainerLimits;
  readonly notes: Notes;
  /** Keeps what a round leaves behind, when it is over. */
  keep(trace: RoundTrace): Promise<void>;
}

/** What happened in the round in progress. */
export interface Notes {
  heartbeat?: Sending;
  gradient?: Sending;
  local?: LocalWork;
  mean?: Mean;
  /** Late gradients that were found before the round. */
  late?: readonly LateGradient[];
}

/** What the worker learned alone; absent in a round that was begun by an earlier process. */
export interface LocalWork {
  readonly params: Vector;
  readonly seconds: number;
}

/** A round, whole: for artifacts. */
export interface RoundTrace {
  /** What the round started from, and what its cohort made of it. */
  readonly before: WorkerState;
  readonly after: WorkerState;
  readonly local: Params | undefined;
  readonly mean: Mean | undefined;
  /** Events of the cohort. */
  readonly cohort: readonly SignedEvent[];
  readonly late: readonly LateGradient[] | undefined;
  readonly heartbeat: Tracked | undefined;
  readonly gradient: Tracked | undefined;
  readonly checkpoint:
    | (Omit<CheckpointSent, 'sending'> & { readonly tracked?: Tracked | undefined })
    | undefined;
}
