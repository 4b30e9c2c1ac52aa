/**
 * Types of the round machine: state (plain JSON data), inputs and effects. What follows from certified history comes in
 * a `RoundContext`, one per round.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { FeatureValues } from '../../run/spec/features.ts';
import type { Message, Proposal, Signed, ViewChangeVote, Vote } from '../../run/vote.ts';

/** Timing settings of a run, in milliseconds. */
export interface RoundTiming {
  /** Bounds of the grace period, which is how long a member waits for contributions. */
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
export interface RoundContext {
  readonly me: WorkerId;
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** Time of the outcome before, in milliseconds: the round began no earlier. */
  readonly since: number;
  readonly timing: RoundTiming;
  readonly roster: readonly WorkerId[];
  /** Workers whose contributions are waited for. */
  readonly live: readonly WorkerId[];
  /** The committee of recovery epoch 0. */
  readonly committee: Committee;
  /** How long contributions took to arrive in earlier rounds, in milliseconds. */
  readonly delays: readonly number[];
  /** Keys that may have a seat in this round. Only their view-change votes count. */
  readonly eligible: readonly WorkerId[];
  /** Whether there are more of them than seats, so that each recovery epoch draws a committee anew. */
  readonly isSampled: boolean;
  /** Proposers of a recovery epoch in order: its committee where seats are sampled, else all eligible keys by rank. */
  proposers(attempt: number): readonly WorkerId[];
  /**
   * The committee of a recovery epoch; where everybody sits, of these keys, who signed the listed view-change votes.
   */
  draw(attempt: number, keys: readonly WorkerId[]): Committee;
  /** Whether view-change votes of these keys reach the recovery floor; repeated keys count once. */
  isFloor(keys: readonly WorkerId[]): boolean;
  /** Whether these view-change votes cannot all miss a quorum of an earlier epoch. */
  covers(attempt: number, keys: readonly WorkerId[]): boolean;
  /** Whether these signers are a quorum by seats and by stake; keys outside the committee are not counted. */
  hasQuorum(committee: Committee, signers: ReadonlySet<WorkerId>): boolean;
}

/** A contribution that arrived completely: verified and decoded. */
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
export interface Prepared extends ViewId {
  readonly ctx: Digest;
  readonly digest: Digest;
  /** A proposal of the outcome to the same committee; it carries the outcome. */
  readonly proposal: EventId;
  /** Ascending. */
  readonly prepares: readonly EventId[];
}

/** A quorum of commits for one outcome in one view: the round is decided. */
export interface Certificate extends ViewId {
  readonly ctx: Digest;
  readonly digest: Digest;
  readonly proposal: EventId;
  /** Ascending. */
  readonly commits: readonly EventId[];
}

/** This worker's validity check of an outcome. */
export interface Check {
  readonly digest: Digest;
  /** Decided by certified history and the bytes alone, so every honest worker agrees. */
  readonly valid: boolean;
  /** Decided by this worker's clock and the contributions it received; for a void outcome by its time alone. */
  readonly acceptable: boolean;
  readonly unlisted: readonly number[];
  /** What features of the run add to a commit to it. */
  readonly features?: FeatureValues<'vote'>;
}

/** A new outcome this worker made for a view in which it is the proposer. */
export interface Composed extends ViewId {
  readonly outcome: Outcome;
  readonly digest: Digest;
}

export type CastVote = Signed<Vote> | Signed<Proposal>;

export interface RoundState {
  readonly round: number;
  readonly begun: number;
  /** When this worker came back to a round in progress; null if it was there all along, or alone. */
  readonly back: number | null;
  readonly held: readonly Arrival[];
  /** When this worker stopped collecting contributions; null before. */
  readonly closed: { readonly at: number; readonly empty: boolean } | null;
  readonly attempt: number;
  /** -1 until closed; never decreases within a recovery epoch. */
  readonly view: number;
  readonly viewEnds: number;
  readonly attemptEnds: number;
  /** The first recovery epoch this worker may vote in: 1 when it lost its record of signed votes. */
  readonly voteFrom: number;
  readonly lock: Prepared | null;
  /** Everything this worker signed in the round; a repeated request must yield the same event. */
  readonly sent: readonly Message[];
  readonly composed: Composed | null;
  readonly votes: readonly CastVote[];
  readonly ballots: readonly Signed<ViewChangeVote>[];
  readonly checks: readonly Check[];
  /** Committees of recovery epochs by the id of the proposal that lists the view-change votes. */
  readonly drawn: Readonly<Record<EventId, Committee>>;
  /** Effects already requested in this view, so that none is requested twice. */
  readonly asked: readonly string[];
  /** Keys with a fault proof against them. */
  readonly faulty: readonly WorkerId[];
  readonly decided: Certificate | null;
  /** Digests of other outcomes that also have a certificate: a safety violation. */
  readonly conflicts: readonly Digest[];
  /** When the machine next needs a tick. */
  readonly wakeAt: number;
}

/** Inputs from the caller. Every protocol message was verified and parsed before. */
export type Input =
  | { readonly type: 'tick' }
  /** The state was loaded from disk: the last signed messages are sent again. */
  | { readonly type: 'restart' }
  | { readonly type: 'held'; readonly worker: WorkerId; readonly manifest: EventId }
  /** A vote, proposal or view-change vote from anybody, this worker included. */
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

export interface Fault {
  readonly key: WorkerId;
  readonly kind: 'equivocation' | 'broken-lock';
  readonly events: readonly [EventId, EventId];
}

/** Actions for the caller, to be done in order. */
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

/** Updates the state. Returns true, which a rule returns when it acted. */
export function change(activation: Activation, values: Partial<RoundState>): true {
  activation.state = { ...activation.state, ...values };
  return true;
}

/** Emits an effect unless the same was already requested in this view. */
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

/** Whether this worker may vote now. */
export const isVoting = ({ state, context }: Activation): boolean =>
  state.closed !== null &&
  state.decided === null &&
  state.attempt >= state.voteFrom &&
  context.roster.includes(context.me);

/** Whether this worker already signed its prepare, or its commit, of the current view. */
export const hasSigned = ({ sent, attempt, view }: RoundState, step: Vote['step']): boolean =>
  sent.some(
    (message) =>
      message.type !== 'ballot' &&
      message.step === step &&
      message.view === view &&
      message.attempt === attempt,
  );
