/** A worker as part of a certified run: what it keeps from round to round beside its model. */
import type { Held, Refusal } from '../../consensus/round/round-state.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Effect } from '../../consensus/round/round-state.ts';
import type { Control } from './control.ts';
import type { FaultProof, Invalid, Missing } from './evidence.ts';
import type { Journal } from './journal.ts';
import type { Pool } from './pool.ts';

/** Tells whoever watches; each says something once. */
export interface Tell {
  stalled(round: number, stall: Extract<Effect, { type: 'stalled' }>): void;
  refused(round: number, refusal: Refusal): void;
  fault(round: number, fault: FaultProof): void;
  /** A check waits for these. */
  lacking(round: number, missing: readonly Missing[]): void;
  invalid(outcome: Outcome, why: Invalid): void;
  uncomposable(round: number, why: Invalid): void;
  unusable(round: number, worker: WorkerId, code: string, message: string): void;
}

export interface Member {
  readonly control: Control;
  readonly pool: Pool;
  readonly journal: Journal;
  readonly tell: Tell;
  /** The value of this worker's reveal chain for a round. */
  reveal(round: number): Digest | '';
  readonly delays: readonly number[];
  learnDelays(held: readonly Held[]): void;
  /** Gets a stake table or a beacon value, and calls back when it is in the pool. */
  obtain(missing: Missing, onHere: () => void): void;
}
