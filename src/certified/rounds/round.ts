/**
 * A certified round as a member sees it: ready to open, listened to, driven, decided; and the wait for its stake table
 * and beacon value.
 */
import type { Clock } from '../../base/async.ts';
import type { RoundContext } from '../../consensus/round/round-state.ts';
import type { Beginning } from '../../consensus/round/timing.ts';
import type { Sealed } from '../../network/wire/wire.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { ListedVotes } from '../../run/listed.ts';
import { leastSeconds, type RunSpec } from '../../run/spec/run-spec.ts';
import {
  type Certified,
  type Decision,
  electorateOf,
  type ReadyRound,
  stakesOf,
  withEntropy,
} from '../decisions/chain.ts';
import type { EvidenceStore, Missing } from '../decisions/evidence.ts';
import type { applyOutcome } from '../decisions/outcomes.ts';
import type { MemberFeature } from '../features/feature.ts';
import type { Refresh } from '../features/stakes.ts';
import type { Branches } from '../history/branches.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';
import type { Attendance } from './attendance.ts';
import type { RunReporter } from './events.ts';
import type { Entry, Journal, KeyWatch, VoteMemory } from './journal.ts';
import type { Backfill } from './keep-round.ts';

/** Rounds that are listened to: the one in progress and the one before, for who still looks for its end. */
export class OpenRounds {
  readonly #evidence: EvidenceStore;
  #open: readonly HeardRound[] = [];

  constructor(evidence: EvidenceStore) {
    this.#evidence = evidence;
  }

  /** What is of the whole run goes to the round in progress. */
  take(message: ProtocolMessage): void {
    const now = this.#open.at(-1);
    if (now) now.take(message);
    else this.#evidence.add(message);
  }

  refuse(rejection: Rejection, id: EventId | undefined): void {
    this.#open.at(-1)?.refuse(rejection, id);
  }

  /** Goes on listening to this round; the one before stays open, older ones do not. */
  follow(round: HeardRound): void {
    const [before, ...older] = [...this.#open].reverse();
    for (const each of older) each.close();
    this.#open = before ? [before, round] : [round];
  }

  close(): void {
    for (const each of this.#open) each.close();
    this.#open = [];
  }
}

/** A round that is listened to. */
export interface HeardRound {
  /** Takes in a protocol message as if a relay had brought it. */
  take(message: ProtocolMessage): void;
  /** Notes what a relay brought and is no event of its author. */
  refuse(rejection: Rejection, id: EventId | undefined): void;
  close(): void;
}

export interface DrivenRound extends HeardRound {
  /** Resolves with the end of the round; rejects when the worker is stopped, or cannot follow what was certified. */
  readonly decided: Promise<Decision>;
  /** What was dropped until now, and why. */
  readonly refused: readonly Rejection[];
  /** A certificate is here; what it names may still be on its way. */
  readonly isCertified: boolean;
  /** This worker was one of those who decided: it knew the end of the round when they did. */
  readonly hasCommitted: boolean;
  /** Resolves when every reachable relay has sent what it has of this round, and it was looked at. */
  readonly caughtUp: Promise<void>;
  enter(sent: Sealed): void;
}

/** One worker of a certified run as its parts. */
export interface RunMember {
  /** Keeps what placement gives this worker of a checkpoint. Never rejects. */
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
  /** Applies outcomes; default by computing everything. */
  readonly apply?: typeof applyOutcome | undefined;
  /** The end of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** Holds what is signed before it is sent. */
  readonly journal: Journal;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly spec: RunSpec;
  readonly control: Control;
  readonly evidence: EvidenceStore;
  readonly reporter: RunReporter;
  readonly branches: Branches;
  readonly attendance: Attendance;
  readonly refresh: Refresh;
  readonly backfill: Backfill;
  readonly memory: VoteMemory;
  readonly keyWatch: KeyWatch;
  readonly inputs: RoundInputs;
  readonly membershipListener: MembershipListener;
  readonly rounds: OpenRounds;
  readonly features: readonly MemberFeature[];
  close(): void;
}

export interface DriverOptions {
  readonly state: Certified;
  readonly context: RoundContext;
  readonly ports: RunMember;
  /** What was signed in this round before; undefined where nothing was. */
  readonly entry: Entry | undefined;
  readonly beginning: Beginning;
  /** The first recovery epoch that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** A quorum of commits of the round before. */
  readonly votes: ListedVotes | null;
  /** Others may have decided the round: what members copied of it is asked for at once. */
  readonly isBehind: boolean;
}

export interface InputPorts {
  /** The beacon value after an outcome of this time. Rejects while nobody has it. */
  beacon(time: number): Promise<Digest>;
  readonly control: Pick<Control, 'forgetBefore' | 'admit' | 'require'>;
  readonly evidence: EvidenceStore;
  readonly refresh: Pick<Refresh, 'begin' | 'obtain'>;
  readonly reporter: RunReporter;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Rounds whose messages are kept: a vote of the round before is evidence of the next one. */
const KEPT_ROUNDS = 2;
/** Between two tries to get a stake table or a beacon value. */
const RETRY_MS = 2000;

export class RoundInputs {
  readonly #ports: InputPorts;

  constructor(ports: InputPorts) {
    this.#ports = ports;
  }

  /** The round once everything is here that it is drawn with. What belongs to rounds long over is let go. */
  async ready(certified: Certified): Promise<ReadyRound> {
    const { evidence, control, refresh } = this.#ports;
    evidence.forgetBefore(certified.round - KEPT_ROUNDS);
    control.forgetBefore(certified.round - KEPT_ROUNDS);
    const ledgers = [certified.ledger, ...(certified.before ? [certified.before.ledger] : [])];
    const members = ledgers.flatMap((ledger) => ledger.members.map(({ key }) => key));
    const { spec, round, time } = certified;
    control.require({ since: time, seconds: leastSeconds(spec, round) });
    control.admit(members);
    evidence.admit(members);
    // votes and late rows of the round before are judged by those
    if (certified.before) await this.stakes(certified.before.ledger, round);
    for (;;) {
      const entropy = withEntropy(certified, evidence);
      const stakes = stakesOf(certified.ledger, evidence);
      if (entropy.ok && stakes.ok) {
        const state = entropy.value;
        refresh.begin(state);
        return { state, electorate: electorateOf(state, stakes.value) };
      }
      const missing = [entropy, stakes].flatMap((each) =>
        !each.ok && 'missing' in each ? each.missing : [],
      );
      for (const each of missing) await this.obtain(each, certified);
    }
  }

  /** Waits until the table of stakes of a ledger is here, if it has one. */
  async stakes(ledger: Ledger, round: number): Promise<void> {
    const stakes = stakesOf(ledger, this.#ports.evidence);
    if (stakes.ok || !('missing' in stakes)) return;
    for (const each of stakes.missing) await this.obtain(each, { round });
  }

  /** Gets a stake table or a beacon value, however long it takes. */
  async obtain({ what, id }: Missing, { round }: Pick<Certified, 'round'>): Promise<void> {
    const { evidence, refresh, beacon, reporter, clock, signal } = this.#ports;
    for (;;) {
      try {
        if (what === 'snapshot') await refresh.obtain(id);
        else if (what === 'beacon') evidence.addBeacon(Number(id), await beacon(Number(id)));
        return;
      } catch (error) {
        signal.throwIfAborted();
        const why = error instanceof Error ? error.message : String(error);
        reporter.unavailable(round, what, why);
        await clock.sleep(RETRY_MS, signal);
      }
    }
  }
}

/** In a run of so many members all read who comes and goes. */
const FEW_MEMBERS = 64;
/** In a larger run the proposers of the first views hear them, and all members once these views have failed. */
const FIRST_VIEWS = 3;

/**
 * Listens to joins and leaves if this worker may have to propose them. Others read them in the outcome, with
 * signatures. In a run with a jury everybody listens, since verdicts come the same way.
 */
export class MembershipListener {
  readonly #isOpen: boolean;
  readonly #listen: () => { close(): void };
  #listening: { close(): void } | undefined;

  /** `isOpen`: everybody hears all the time. */
  constructor(isOpen: boolean, listen: () => { close(): void }) {
    this.#isOpen = isOpen;
    this.#listen = listen;
  }

  begin({ electorate: { roster, committee } }: ReadyRound, me: WorkerId): void {
    const mayPropose = committee.members.slice(0, FIRST_VIEWS).includes(me);
    if (this.#isOpen || roster.length <= FEW_MEMBERS || mayPropose) this.#open();
    else this.close();
  }

  stalled({ attempt, view }: { readonly attempt: number; readonly view: number }): void {
    if (attempt > 0 || view >= FIRST_VIEWS - 1) this.#open();
  }

  close(): void {
    this.#listening?.close();
    this.#listening = undefined;
  }

  #open(): void {
    this.#listening ??= this.#listen();
  }
}
