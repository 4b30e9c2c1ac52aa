/**
 * Types of the round machine: its state (plain JSON data, saved to disk), inputs and effects. Everything that follows
 * from certified history comes in a `RoundContext`, one per round.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { FeatureValues } from '../../run/spec/features.ts';
import type {
  Message,
  PreparedClaim,
  Proposal,
  Signed,
  ViewChangeVote,
  Vote,
} from '../../run/vote.ts';
import type { Election } from '../committee/committee.ts';

/** Timing settings of a run, in milliseconds. */
export interface RoundTiming {
  /** Bounds of the grace period: how long a member waits for contributions. */
  readonly graceMinMs: number;
  readonly graceMaxMs: number;
  /** Median absolute deviations after the median arrival that the grace period allows. */
  readonly deadlineC: number;
  /** Length of view 0; view v lasts 2^min(v, 3) times as long. */
  readonly viewMs: number;
  /** From this view on a void outcome is acceptable. */
  readonly voidView: number;
  /** How long a recovery epoch lasts before the next one begins; 0 switches recovery off. */
  readonly recoveryMs: number;
  /** Largest difference between honest clocks. */
  readonly skewMs: number;
}

/** Everything a round takes from the run spec and certified history; equal for all workers except `me` and `delays`. */
export interface RoundContext extends Election {
  readonly me: WorkerId;
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** Time of the previous outcome, in milliseconds: the round began no earlier. */
  readonly since: number;
  readonly timing: RoundTiming;
  readonly roster: readonly WorkerId[];
  /** Workers whose contributions are waited for. */
  readonly live: readonly WorkerId[];
  /** How long contributions took to arrive in earlier rounds, in milliseconds. */
  readonly delays: readonly number[];
  /** Reports whether these signers are a quorum by seats and by stake; keys outside the committee are not counted. */
  hasQuorum(committee: Committee, signers: ReadonlySet<WorkerId>): boolean;
}

/** A contribution that has arrived completely: verified and decoded. */
export interface Arrival {
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** Milliseconds after the round began here. */
  readonly delay: number;
}

/** A view of a recovery epoch (`attempt`). Ordered by epoch, then by view. */
export interface ViewId {
  readonly attempt: number;
  readonly view: number;
}

/** A quorum of prepares for one outcome in one view. */
export interface Prepared extends PreparedClaim {
  readonly ctx: Digest;
}

/** A quorum of commits for one outcome in one view: the round is decided. */
export interface Certificate extends Omit<Prepared, 'prepares'> {
  /** Ascending. */
  readonly commits: readonly EventId[];
}

/** This worker's validity check of an outcome. */
export interface Check {
  readonly digest: Digest;
  /** Follows from certified history and the bytes alone, so that every honest worker agrees. */
  readonly valid: boolean;
  /** Follows from this worker's clock and the contributions it received; for a void outcome from its time alone. */
  readonly acceptable: boolean;
  readonly unlisted: readonly number[];
  /** Fields that features of the run add to a commit to this outcome. */
  readonly features?: FeatureValues<'vote'>;
}

/** A new outcome this worker made for a view in which it is the proposer. */
export interface Composed extends ViewId {
  readonly outcome: Outcome;
  readonly digest: Digest;
}

/** A signed vote or proposal; a proposal counts as its author’s prepare. */
export type CastVote = Signed<Vote> | Signed<Proposal>;

/** Everything that the round machine remembers of one round. */
export interface RoundState {
  readonly round: number;
  readonly begun: number;
  /** When this worker came back to a round in progress; null if it was not away, or if no member had continued it. */
  readonly back: number | null;
  /** Contributions that arrived before this member closed the round. */
  readonly held: readonly Arrival[];
  /** When this worker stopped collecting contributions; null until then. */
  readonly closed: { readonly at: number; readonly empty: boolean } | null;
  readonly attempt: number;
  /** -1 until closed; never decreases within a recovery epoch. */
  readonly view: number;
  readonly viewEnds: number;
  readonly attemptEnds: number;
  /** The first recovery epoch this worker may vote in: 1 if it lost its record of signed votes. */
  readonly voteFrom: number;
  readonly lock: Prepared | null;
  /** All messages this worker signed in the round; a repeated request must yield the same event. */
  readonly sent: readonly Message[];
  readonly composed: Composed | null;
  readonly votes: readonly CastVote[];
  readonly ballots: readonly Signed<ViewChangeVote>[];
  readonly checks: readonly Check[];
  /** Committees of recovery epochs, by the id of the proposal that lists the view-change votes. */
  readonly drawn: Readonly<Record<EventId, Committee>>;
  /** Keys of the effects already requested in this view, so that each is requested once. */
  readonly asked: readonly string[];
  /** Keys with a fault proof against them. */
  readonly faulty: readonly WorkerId[];
  readonly decided: Certificate | null;
  /** Digests of other outcomes that also have a certificate: a safety violation. */
  readonly conflicts: readonly Digest[];
  /** When the machine next needs a tick. */
  readonly wakeAt: number;
}

/** Returns the state for a context with other keys: it requests again, and draws committees again. */
export const withoutRequests = (state: RoundState): RoundState => ({
  ...state,
  drawn: {},
  asked: [],
});

/** Inputs from the caller. The caller verifies and parses protocol messages first. */
export type Input =
  | { readonly type: 'tick' }
  /** The state was loaded from disk: the last signed messages are sent again. */
  | { readonly type: 'restart' }
  | { readonly type: 'held'; readonly worker: WorkerId; readonly manifest: EventId }
  /** A vote, proposal or view-change vote from any worker, this one included. */
  | { readonly type: 'message'; readonly message: Signed<Message> }
  /** Answer to `compose`. */
  | { readonly type: 'composed'; readonly composed: Composed; readonly check: Check }
  /** Answer to `check`; may come late, since payloads may have to be fetched first. */
  | { readonly type: 'checked'; readonly check: Check };

/** Why an input was refused. */
export type Refusal =
  | { readonly code: 'invalid-round'; readonly round: number; readonly current: number }
  | { readonly code: 'not-a-member'; readonly key: WorkerId }
  | { readonly code: 'other-history'; readonly key: WorkerId }
  | { readonly code: 'other-committee'; readonly key: WorkerId }
  | { readonly code: 'too-early'; readonly key: WorkerId }
  | { readonly code: 'too-many'; readonly key: WorkerId }
  | {
      readonly code: 'conflicting-finalize';
      readonly round: number;
      readonly expected: Digest;
      readonly got: Digest;
    };

/** A proven fault of a key and the two events that prove it. */
export interface Fault {
  readonly key: WorkerId;
  readonly kind: 'equivocation' | 'broken-lock';
  readonly events: readonly [EventId, EventId];
}

/** Actions for the caller, to be carried out in order. */
export type Effect =
  /** The state must be on disk before any later effect is carried out. */
  | { readonly type: 'persist' }
  /** Sign, store and publish the message, and return it as input. Equal content must yield the same event. */
  | { readonly type: 'send'; readonly message: Message }
  /** Send these events again as they are. */
  | { readonly type: 'resend'; readonly ids: readonly EventId[] }
  | {
      readonly type: 'compose';
      readonly attempt: number;
      readonly view: number;
      readonly result: 'final' | 'void';
      readonly ballots: readonly EventId[];
    }
  | { readonly type: 'check'; readonly digest: Digest; readonly outcome: Outcome }
  | { readonly type: 'want'; readonly what: 'events'; readonly ids: readonly EventId[] }
  | { readonly type: 'want'; readonly what: 'outcome'; readonly digest: Digest }
  /** Fetch all messages of the round from the relays. */
  | { readonly type: 'want'; readonly what: 'round' }
  | {
      readonly type: 'finalized';
      readonly outcome: Outcome;
      readonly certificate: Certificate;
    }
  | { readonly type: 'fault'; readonly fault: Fault }
  /** A view ended without a certificate; these members sent nothing in it. */
  | {
      readonly type: 'stalled';
      readonly attempt: number;
      readonly view: number;
      readonly missing: readonly WorkerId[];
    }
  | { readonly type: 'refused'; readonly refusal: Refusal };

/** Working state of one `step` of the machine: rules read the context, replace the state and append effects. */
export interface Activation {
  readonly context: RoundContext;
  readonly now: number;
  state: RoundState;
  readonly effects: Effect[];
  /** Whether a new message may have completed a certificate. */
  heard: boolean;
}

/** Updates the state. Returns true, the value with which a rule reports that it acted. */
export function change(activation: Activation, values: Partial<RoundState>): true {
  activation.state = { ...activation.state, ...values };
  return true;
}

/** Emits an effect unless one with this key was already requested in this view; reports whether it did. */
export function ask(activation: Activation, key: string, effect: Effect): boolean {
  if (activation.state.asked.includes(key)) return false;
  activation.effects.push(effect);
  return change(activation, { asked: [...activation.state.asked, key] });
}

/** Records a message as signed, persists it, then sends it. */
export function sign(activation: Activation, message: Message): true {
  activation.effects.push({ type: 'persist' }, { type: 'send', message });
  return change(activation, { sent: [...activation.state.sent, message] });
}

export const isAfter = (a: ViewId, b: ViewId): boolean =>
  a.attempt > b.attempt || (a.attempt === b.attempt && a.view > b.view);

/** Reports whether this worker may vote now. */
export const isVoting = ({ state, context }: Activation): boolean =>
  state.closed !== null &&
  state.decided === null &&
  state.attempt >= state.voteFrom &&
  context.roster.includes(context.me);

/** Reports whether this worker already signed its prepare, or its commit, in the current view. */
export const hasSigned = ({ sent, attempt, view }: RoundState, step: Vote['step']): boolean =>
  sent.some(
    (message) =>
      message.type !== 'ballot' &&
      message.step === step &&
      message.view === view &&
      message.attempt === attempt,
  );
