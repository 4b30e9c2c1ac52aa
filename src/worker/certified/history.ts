/**
 * The certified state of a run and the one way it moves: outcome by outcome. The worker that plays and whoever replays the run
 * use the same functions, so a replay checks what was really done.
 */
import type { Digest } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { RunSpec } from '../../run/run-spec.ts';
import type { Params, Vector } from '../../tensor/params.ts';
import type { Evidence, Verdict } from './evidence.ts';

/** A round that is over, as far as its votes and its late work are judged in the next one. */
export interface Past {
  readonly round: number;
  readonly parent: Digest;
  /** Model root it started from. */
  readonly base: Digest;
  readonly ledger: Ledger;
}

/** What is certified, without the model itself: enough to check who decided what. */
export interface Chain {
  readonly spec: RunSpec;
  readonly run: Digest;
  /** The round to come. */
  readonly round: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Of the round to come. */
  readonly ledger: Ledger;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  /** The round before; null in round 0. */
  readonly before: Past | null;
  /** The run id and the digests of the last outcomes, the newest last: what a join may name as recent. */
  readonly recent: readonly Digest[];
}

/** The whole certified state. */
export interface Certified extends Chain {
  readonly params: Params;
  /** Outer momentum. */
  readonly momentum: Vector;
}

/** An outcome without the roots, which follow from the rest. */
export type Draft = Omit<Outcome, 'modelRoot' | 'ledgerRoot'>;

/** The state a run starts from. */
export declare function genesisOf(spec: RunSpec, params: Params): Certified;

/** The state after an outcome, when it is valid: everything of it recomputed, both roots compared. */
export declare function applyOutcome(
  state: Certified,
  outcome: Outcome,
  evidence: Evidence,
): Verdict<Certified>;

/** The same without the model: payloads are not looked at and the model root is taken from the outcome. */
export declare function applyToChain(
  chain: Chain,
  outcome: Outcome,
  evidence: Evidence,
): Verdict<Chain>;

/** A draft with its roots, and the state it leads to: what a proposer composes. */
export declare function completeOutcome(
  state: Certified,
  draft: Draft,
  evidence: Evidence,
): Verdict<{ readonly outcome: Outcome; readonly next: Certified }>;
