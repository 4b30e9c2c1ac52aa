/**
 * A certified feature as one object: its hooks in a member, in the judging of a round and in the summary. The callers
 * go through the list (list.ts) and know no feature by name. What changes certified state is in decisions/ and
 * consensus/.
 */
import type { Clock } from '../../base/async.ts';
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
import type { CertifiedRound, RunReporter } from '../rounds/events.ts';
import type { CertifiedState } from '../state.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';

/** Where private states are kept until they may have to be shown, by root. */
export interface PrivateStore {
  /** Older ones may be let go of. */
  save(root: Digest, bytes: Uint8Array): Promise<void>;
  load(root: Digest): Promise<Uint8Array | undefined>;
}

/** Makes trainers like those of others, apart from the one that this worker trains with. */
export interface RecomputationTrainers {
  /** On the shard that the manifest names, computing as its author does where this machine can. */
  like(manifest: Manifest): Promise<Pick<Trainer, 'train' | 'origin'>>;
  close(): Promise<void>;
}

/** What a machine gives to features. A feature that lacks what it needs does its part without, or nothing. */
export interface FeatureMachine {
  /** Measures losses, for screening and scores; `secret` makes this worker's own rows nobody else's. */
  readonly measuring?:
    | { readonly measure: NonNullable<Trainer['measure']>; readonly secret: string }
    | undefined;
  /** Runs steps of others again, for a jury. */
  readonly recomputation?:
    | {
        readonly steps: RecomputationTrainers;
        fetch(root: PayloadRoot): Promise<Uint8Array | undefined>;
      }
    | undefined;
  /** Keeps and shows private state, for reruns. */
  readonly disclosure?:
    | {
        readonly origin: Origin;
        readonly store: PrivateStore;
        readonly relays: ChunkRelays;
        readonly sign: (draft: EventDraft) => SignedEvent;
      }
    | undefined;
  readonly sha256: Sha256;
}

/** The member that a feature is part of. */
export interface FeatureHost extends FeatureMachine {
  readonly spec: RunSpec;
  readonly me: WorkerId;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly control: Control;
  readonly evidence: EvidenceStore;
  readonly reporter: RunReporter;
  /** Takes in this worker's own message. */
  take(message: ProtocolMessage): void;
}

/** A round that is being judged. */
export interface JudgedRound {
  readonly state: Certified;
  readonly context: RoundContext;
  /** Aborted when the round is closed. */
  readonly signal: AbortSignal;
  /** A contribution that is here and good. */
  find(manifest: EventId): Contribution | undefined;
  /** Those of this round, in the order in which they arrived. */
  arrived(): readonly Contribution[];
  /** Called when something may be judged now. */
  wake(): void;
}

/** One member's opinion of contributions, by their manifests. */
export interface ContributionOpinion {
  /** Whether it would list it in an outcome of its own. */
  mayPropose(id: EventId): boolean;
  /** Whether it accepts an outcome that lists it, in this view. */
  mayAccept(id: EventId, view: number): boolean;
  /** Whether others must list it. */
  isGood(id: EventId): boolean;
}

/** A feature's part in judging one round. */
export interface RoundFeature {
  /** A contribution is here in full. */
  arrived?(manifest: EventId): void;
  /** Whether a vote that concerns these may be cast now; `wake` is called when that changes. */
  isReady?(manifests: readonly EventId[], view: ViewId): boolean;
  /** What this member thinks of the contributions that it holds; reports the harmful ones. */
  judgment?(available: readonly Pick<Arrival, 'worker' | 'manifest'>[]): ContributionOpinion;
  /** What this member's commit adds; `held` are the contributions that it holds and that weigh anything. */
  commitFields?(available: readonly Arrival[]): FeatureValues<'vote'>;
}

/** A feature's part in one member. */
export interface MemberFeature {
  /** A round begins; `before` is this worker's state. */
  begin?(round: ReadyRound, before: CertifiedState): void;
  judge?(round: JudgedRound): RoundFeature;
  /** This worker trains, or has sent what it learned. */
  training?(isTraining: boolean): void;
  heard?(message: ProtocolMessage): void;
  /** What a manifest says of the state after an inner phase. */
  commit?(made: PrivateState): Promise<FeatureValues<'manifest'>>;
  decided?(round: ReadyRound, outcome: Outcome, taken: Certified['taken']): void;
  /** What is left to do after the last round. Never rejects. */
  ended?(state: CertifiedState): Promise<void>;
  close?(): void;
}

export interface CertifiedFeature {
  isIn(spec: RunSpec): boolean;
  /** Whether all members hear joins, leaves and verdicts all the time. */
  readonly hearsMembers?: boolean;
  /** Undefined where this machine cannot do what the feature asks. */
  create(host: FeatureHost): MemberFeature | undefined;
  /** What it adds to the summary of a round that these commits certified. */
  describe?(
    next: Certified,
    commits: readonly Signed<Commit>[],
    roster: readonly WorkerId[],
  ): Partial<CertifiedRound>;
}
