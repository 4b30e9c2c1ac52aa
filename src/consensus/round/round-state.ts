/**
 * What the round machine knows, is told and asks for. The state is plain data: it can be written to disk as canonical JSON
 * and read back. Everything that follows from the certified past comes in as a context, made anew for each round.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Message, Proposal, Signed, ViewChangeVote, Vote } from '../../run/vote.ts';

/** Durations of a run, in milliseconds. */
export interface RoundTiming {
  /** Bounds of the time between finalizing a round and closing the next one. */
  readonly graceMinMs: number;
  readonly graceMaxMs: number;
  /** How many deviations past the median arrival still count. */
  readonly deadlineC: number;
  /** Length of view 0; view v lasts 2^min(v, 3) times as long. */
  readonly viewMs: number;
  /** The view from which on a void outcome is acceptable to everybody. */
  readonly voidView: number;
  /** How long an attempt may take before the next one; 0 for one attempt only. */
  readonly recoveryMs: number;
  /** How far apart clocks may be. */
  readonly skewMs: number;
}

/** What follows from the run and from the outcomes before this round; the same for every worker but `me` and `delays`. */
export interface RoundContext {
  readonly me: WorkerId;
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** Time of the outcome before, in milliseconds: nobody began the round earlier. */
  readonly since: number;
  readonly timing: RoundTiming;
  readonly roster: readonly WorkerId[];
  /** Whose manifests are waited for. */
  readonly live: readonly WorkerId[];
  /** The committee of attempt 0. */
  readonly committee: Committee;
  /** How long manifests took to arrive in rounds before, in milliseconds. */
  readonly delays: readonly number[];
  /** Who proposes in a recovery attempt: all of the roster by rank. */
  proposers(attempt: number): readonly WorkerId[];
  /** Who votes in a recovery attempt, given who signed the ballots a proposal lists. */
  draw(attempt: number, keys: readonly WorkerId[]): Committee;
  /** Whether ballots of these keys reach the recovery floor; a key that is named twice counts once. */
  isFloor(keys: readonly WorkerId[]): boolean;
  /** Whether these members are a quorum by seats and by stake; keys outside the committee count for nothing. */
  hasQuorum(committee: Committee, signers: ReadonlySet<WorkerId>): boolean;
}

/** A manifest that is here in full, verified and decoded. */
export interface Arrival {
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** Milliseconds after the round began here. */
  readonly delay: number;
}

/** A place in a round: later attempts come after earlier ones, views after each other within an attempt. */
export interface ViewId {
  readonly attempt: number;
  readonly view: number;
}

/** A quorum of prepares for one outcome in one view. */
export interface Prepared extends ViewId {
  readonly ctx: Digest;
  readonly digest: Digest;
  /** A proposal of it with the same committee; it has the body. */
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

/** What this worker found out about an outcome. */
export interface Check {
  readonly digest: Digest;
  /** By the certified past and the bytes alone: everybody finds the same. */
  readonly valid: boolean;
  /** By this worker's clock and what reached it. Of a void outcome: whether its time will do. */
  readonly acceptable: boolean;
  readonly unlisted: readonly EventId[];
  readonly scores: readonly number[];
}

/** An outcome this worker made for a view in which it proposes. */
export interface Composed extends ViewId {
  readonly outcome: Outcome;
  readonly digest: Digest;
}

export type CastVote = Signed<Vote> | Signed<Proposal>;

export interface RoundState {
  readonly round: number;
  readonly begun: number;
  readonly held: readonly Arrival[];
  /** Undecided as long as this worker still collects. */
  readonly closed: { readonly at: number; readonly empty: boolean } | null;
  readonly attempt: number;
  /** -1 until closed; never decreases within an attempt. */
  readonly view: number;
  readonly viewEnds: number;
  readonly attemptEnds: number;
  /** The first attempt this worker may vote in: 1 when it lost what it signed before. */
  readonly voteFrom: number;
  readonly lock: Prepared | null;
  /** What this worker signed in the round; the event may be asked for again and must be the same. */
  readonly sent: readonly Message[];
  readonly composed: Composed | null;
  readonly votes: readonly CastVote[];
  readonly ballots: readonly Signed<ViewChangeVote>[];
  readonly checks: readonly Check[];
  /** Committees of recovery attempts by the id of the proposal that lists the ballots. */
  readonly drawn: Readonly<Record<EventId, Committee>>;
  /** What was asked of the caller in this view, so as not to ask twice. */
  readonly asked: readonly string[];
  /** Keys against which there is a proof. */
  readonly faulty: readonly WorkerId[];
  readonly decided: Certificate | null;
  /** Other outcomes with a certificate of their own. */
  readonly conflicts: readonly Digest[];
  readonly wakeAt: number;
}

/** What the caller tells the machine. Every noun was verified and is of its form. */
export type Input =
  | { readonly type: 'tick' }
  /** The state was read from disk: what was signed last goes out again. */
  | { readonly type: 'restart' }
  | { readonly type: 'held'; readonly worker: WorkerId; readonly manifest: EventId }
  /** A vote, proposal or ballot of anyone; of this worker too, once it is signed. */
  | { readonly type: 'message'; readonly message: Signed<Message> }
  /** A certificate as somebody shows it: a proposal and commits. */
  | {
      readonly type: 'certificate';
      readonly proposal: Signed<Proposal>;
      readonly commits: readonly Signed<Vote>[];
    }
  /** Answer to `compose`. */
  | { readonly type: 'composed'; readonly composed: Composed; readonly check: Check }
  /** Answer to `check`, as late as need be: a payload may have to be fetched first. */
  | { readonly type: 'checked'; readonly check: Check };

/** Why something was not taken. */
export type Refusal =
  | { readonly code: 'invalid-round'; readonly round: number; readonly current: number }
  | { readonly code: 'not-a-member'; readonly key: WorkerId }
  | { readonly code: 'other-history'; readonly key: WorkerId }
  | { readonly code: 'other-committee'; readonly key: WorkerId }
  | { readonly code: 'too-early'; readonly key: WorkerId }
  | { readonly code: 'too-many'; readonly key: WorkerId }
  | { readonly code: 'no-quorum'; readonly round: number }
  | {
      readonly code: 'conflicting-finalize';
      readonly round: number;
      readonly expected: Digest;
      readonly got: Digest;
    };

/** Two events that prove their author broke the rules. */
export interface Fault {
  readonly key: WorkerId;
  readonly kind: 'equivocation' | 'broken-lock';
  readonly events: readonly [EventId, EventId];
}

/** What the machine asks of the caller, to be done in order. */
export type Effect =
  /** The state must be on disk before anything after this is done. */
  | { readonly type: 'persist' }
  /** Sign, keep the event, send it, and give it back as a `message`. The same content always makes the same event. */
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
  /** Everything of the round that relays have. */
  | { readonly type: 'want'; readonly what: 'round' }
  /** Observing is over; these are the arrivals to learn the next deadline from. */
  | { readonly type: 'closed'; readonly held: readonly Arrival[] }
  | { readonly type: 'wake'; readonly at: number }
  | {
      readonly type: 'finalized';
      readonly outcome: Outcome;
      readonly certificate: Certificate;
    }
  | { readonly type: 'fault'; readonly fault: Fault }
  /** A view ended without a certificate; these were not heard of in it. */
  | {
      readonly type: 'stalled';
      readonly attempt: number;
      readonly view: number;
      readonly missing: readonly WorkerId[];
    }
  | { readonly type: 'refused'; readonly refusal: Refusal };

/** One step while it is being taken. */
export interface Turn {
  readonly context: RoundContext;
  readonly now: number;
  state: RoundState;
  readonly effects: Effect[];
  /** Whether there may be a certificate that was not there before. */
  heard: boolean;
}

/** Takes over new values; true, so that a rule can say that it changed something. */
export function change(turn: Turn, values: Partial<RoundState>): true {
  turn.state = { ...turn.state, ...values };
  return true;
}

/** Emits an effect unless the same was asked for in this view. */
export function ask(turn: Turn, key: string, effect: Effect): boolean {
  if (turn.state.asked.includes(key)) return false;
  turn.effects.push(effect);
  return change(turn, { asked: [...turn.state.asked, key] });
}

/** Signs: on disk first, then out. */
export function sign(turn: Turn, message: Message): true {
  turn.effects.push({ type: 'persist' }, { type: 'send', message });
  return change(turn, { sent: [...turn.state.sent, message] });
}

/** Whether a place comes after another one. */
export const isAfter = (a: ViewId, b: ViewId): boolean =>
  a.attempt > b.attempt || (a.attempt === b.attempt && a.view > b.view);

/** Whether this worker takes part in voting right now. */
export const isVoting = ({ state, context }: Turn): boolean =>
  state.closed !== null &&
  state.decided === null &&
  state.attempt >= state.voteFrom &&
  context.roster.includes(context.me);

/** Whether this worker already used its one prepare, or its one commit, of the current view. */
export const hasSigned = ({ sent, attempt, view }: RoundState, step: Vote['step']): boolean =>
  sent.some(
    (message) =>
      message.type !== 'ballot' &&
      message.step === step &&
      message.view === view &&
      message.attempt === attempt,
  );
