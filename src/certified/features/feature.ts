/**
 * Interfaces of a certified feature: its hooks in a member, in the judging of a round, and in the round summary.
 * Callers iterate over list.ts and know no feature by name. Changes to certified state are in decisions/ and
 * consensus/.
 */
import type { Arrival, RoundContext, ViewId } from '../../consensus/round/round-state.ts';
import type { ChunkRelays } from '../../network/attachments/publish.ts';
import type { PayloadRoot } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Contribution } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { FeatureValues } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Commit, Signed } from '../../run/vote.ts';
import type { Origin, Trainer } from '../../worker/ports.ts';
import type { PrivateState } from '../../worker/strategy.ts';
import type { Certified, ReadyRound } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { BranchOptions } from '../history/branches.ts';
import type { CertifiedRound } from '../rounds/events.ts';
import type { CertifiedState } from '../state.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';

/** Stores private states by root until they may have to be disclosed. */
export interface PrivateStore {
  /** Saves a state; older ones may be deleted. */
  save(root: Digest, bytes: Uint8Array): Promise<void>;
  load(root: Digest): Promise<Uint8Array | undefined>;
}

/** Opens trainers that reproduce those of other workers, apart from this worker's own trainer. */
export interface RecomputationTrainers {
  /**
   * Returns a trainer on the shard that the manifest names, configured like its author's as far as this machine allows.
   */
  like(manifest: Manifest): Promise<Pick<Trainer, 'train' | 'origin'>>;
  close(): Promise<void>;
}

/** What the machine provides to features. A feature that lacks something does its part without it, or nothing. */
export interface FeatureMachine {
  /** Measures losses, for screening and scores. `secret` seeds the draw of data rows that only this worker knows. */
  readonly measuring?:
    | { readonly measure: NonNullable<Trainer['measure']>; readonly secret: string }
    | undefined;
  /** Recomputes the steps of other workers, for juries; `fetch` gets disclosed states. */
  readonly recomputation?:
    | {
        readonly steps: RecomputationTrainers;
        fetch(root: PayloadRoot): Promise<Uint8Array | undefined>;
      }
    | undefined;
  /** Stores and discloses private state, for reruns. */
  readonly disclosure?:
    | {
        readonly origin: Origin;
        readonly store: PrivateStore;
        readonly relays: ChunkRelays;
        readonly sign: (draft: EventDraft) => SignedEvent;
      }
    | undefined;
  /** Returns the notes of the corpus that their authors deleted so far, by position, ascending. */
  readonly deletedNotes?: (() => Promise<readonly number[]>) | undefined;
  readonly sha256: Sha256;
}

/** The member that hosts a feature. */
export interface FeatureHost
  extends FeatureMachine,
    Pick<BranchOptions, 'spec' | 'clock' | 'signal' | 'reporter'> {
  readonly me: WorkerId;
  readonly control: Control;
  readonly evidence: EvidenceStore;
  /** Processes a message of this worker as if a relay had sent it. */
  take(message: ProtocolMessage): void;
}

/** A round in progress, as features judge it. */
export interface JudgedRound {
  readonly state: Certified;
  readonly context: RoundContext;
  /** Aborts when the round closes. */
  readonly signal: AbortSignal;
  /** Returns a valid contribution; undefined if it is missing or invalid. */
  find(manifest: EventId): Contribution | undefined;
  /** Returns the valid contributions to this round in order of arrival. */
  arrived(): readonly Contribution[];
  /** Asks the round to judge again. */
  wake(): void;
}

/** One member's opinion of contributions, by manifest id. */
export interface ContributionOpinion {
  /** Reports whether this member would list the contribution in its own proposal. */
  mayPropose(id: EventId): boolean;
  /** Reports whether this member accepts an outcome that lists the contribution, in this view. */
  mayAccept(id: EventId, view: number): boolean;
  /** Reports whether others must list the contribution. */
  isGood(id: EventId): boolean;
}

/** A feature's part in judging one round. */
export interface RoundFeature {
  /** Called when a contribution is complete. */
  arrived?(manifest: EventId): void;
  /** Reports whether a vote about these contributions may be cast now; if not, the feature calls `wake` later. */
  isReady?(manifests: readonly EventId[], view: ViewId): boolean;
  /** Returns this member's opinion of the available contributions and reports the harmful ones. */
  judgment?(available: readonly Pick<Arrival, 'worker' | 'manifest'>[]): ContributionOpinion;
  /**
   * Returns the feature fields of this member's commit; `available` are the contributions that it has and that have
   * weight.
   */
  commitFields?(available: readonly Arrival[]): FeatureValues<'vote'>;
}

/** A feature's part in one member. */
export interface MemberFeature {
  /** Called when a round begins; `before` is this worker's state. */
  begin?(round: ReadyRound, before: CertifiedState): void;
  judge?(round: JudgedRound): RoundFeature;
  /** Called when this worker starts or stops training. */
  training?(isTraining: boolean): void;
  heard?(message: ProtocolMessage): void;
  /** Returns the manifest fields that follow from the state after an inner phase. */
  commit?(made: PrivateState): Promise<FeatureValues<'manifest'>>;
  decided?(round: ReadyRound, outcome: Outcome, taken: Certified['taken']): void;
  /** Called after the last round, for remaining work. Never rejects. */
  ended?(state: CertifiedState): Promise<void>;
  close?(): void;
}

export interface CertifiedFeature {
  isIn(spec: RunSpec): boolean;
  /** Whether all members subscribe to joins, leaves and verdicts at all times. */
  readonly hearsMembers?: boolean;
  /** Creates the member's part; undefined if the machine lacks what the feature needs. */
  create(host: FeatureHost): MemberFeature | undefined;
  /** Returns what the feature adds to the summary of a round that these commits certified. */
  describe?(
    next: Certified,
    commits: readonly Signed<Commit>[],
    roster: readonly WorkerId[],
  ): Partial<CertifiedRound>;
}
