/**
 * Interfaces of a certified round from opening to decision, the set of open rounds, the wait for stake table and beacon
 * value before a round opens, and the membership listener.
 */
import type { RoundContext } from '../../consensus/round/round-state.ts';
import type { Beginning } from '../../consensus/round/timing.ts';
import type { Sealed } from '../../network/wire/wire.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { ListedVotes } from '../../run/listed.ts';
import { leastSeconds } from '../../run/spec/run-spec.ts';
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
import type { FeatureHost, MemberFeature } from '../features/feature.ts';
import type { Refresh } from '../features/stakes.ts';
import type { Branches } from '../history/branches.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';
import type { Attendance } from './attendance.ts';
import type { Entry, Journal, KeyWatch, VoteMemory } from './journal.ts';
import type { Backfill } from './keep-round.ts';

/** Open rounds: the current one, and the previous one for members that still need its decision. */
export class OpenRounds {
  readonly #evidence: EvidenceStore;
  #open: readonly HeardRound[] = [];

  constructor(evidence: EvidenceStore) {
    this.#evidence = evidence;
  }

  /** Passes a message to the current round. */
  take(message: ProtocolMessage): void {
    const now = this.#open.at(-1);
    if (now) now.take(message);
    else this.#evidence.add(message);
  }

  refuse(rejection: Rejection, id: EventId | undefined): void {
    this.#open.at(-1)?.refuse(rejection, id);
  }

  /** Opens a round; the previous one stays open, older ones close. */
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

/** A round that receives messages. */
export interface HeardRound {
  /** Processes a protocol message as if a relay had sent it. */
  take(message: ProtocolMessage): void;
  /** Records an event with a wrong id or signature. */
  refuse(rejection: Rejection, id: EventId | undefined): void;
  close(): void;
}

export interface DrivenRound extends HeardRound {
  /** Resolves with the decision; rejects if the worker is stopped or a certified outcome is invalid. */
  readonly decided: Promise<Decision>;
  /** Messages refused so far. */
  readonly refused: readonly Rejection[];
  /** A certificate is known; the evidence it names may be missing. */
  readonly isCertified: boolean;
  /** This worker committed to the decided outcome, so it knew the decision as early as the others. */
  readonly hasCommitted: boolean;
  /** Resolves when all stored events of this round on reachable relays have been processed. */
  readonly caughtUp: Promise<void>;
  /** What this worker has signed so far, from which the round can be opened again. */
  readonly entry: Entry;
  enter(sent: Sealed): void;
}

/** The parts of one member of a certified run. */
export interface RunMember
  extends Pick<
    FeatureHost,
    'sha256' | 'spec' | 'clock' | 'signal' | 'control' | 'evidence' | 'reporter'
  > {
  /** Stores the chunks of a checkpoint that placement assigns to this worker. Never rejects. */
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
  /** Applies outcomes; by default recomputes everything. */
  readonly apply?: typeof applyOutcome | undefined;
  /** Tip of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** Stores what is signed before it is sent. */
  readonly journal: Journal;
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
  /** Journal entry of this round; undefined if this worker signed nothing in it. */
  readonly entry: Entry | undefined;
  readonly beginning: Beginning;
  /** First recovery epoch that it may vote in: in earlier ones it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** Quorum of commits of the previous round; null in round 0. */
  readonly votes: ListedVotes | null;
  /** Others may have decided the round already, so archived votes are fetched at once. */
  readonly isBehind: boolean;
  /** Called with every message before it is processed; the machine gets those for which it returns true. */
  readonly mayCount?: ((message: ProtocolMessage) => boolean) | undefined;
}

export interface InputPorts extends Pick<RunMember, 'evidence' | 'reporter' | 'clock' | 'signal'> {
  /** Returns the beacon value after an outcome of this time (Unix seconds). Rejects while it is not available. */
  beacon(time: number): Promise<Digest>;
  readonly control: Pick<Control, 'forgetBefore' | 'admit' | 'require'>;
  readonly refresh: Pick<Refresh, 'begin' | 'obtain'>;
}

/** Number of rounds whose messages are kept: votes of the previous round are evidence for the next one. */
const KEPT_ROUNDS = 2;
/** Wait between two attempts to get a stake table or beacon value. */
const RETRY_MS = 2000;

export class RoundInputs {
  readonly #ports: InputPorts;

  constructor(ports: InputPorts) {
    this.#ports = ports;
  }

  /** Returns the round once its entropy and stakes are known, and drops data of old rounds. */
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
    // votes and late contributions of the previous round are judged by its stakes
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

  /** Waits for the stake table of a ledger, if it has one. */
  async stakes(ledger: Ledger, round: number): Promise<void> {
    const stakes = stakesOf(ledger, this.#ports.evidence);
    if (stakes.ok || !('missing' in stakes)) return;
    for (const each of stakes.missing) await this.obtain(each, { round });
  }

  /** Gets a stake table or beacon value, retrying until it succeeds or the signal aborts. */
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

/** Largest roster in which all members listen to joins and leaves. */
const FEW_MEMBERS = 64;
/** In a larger roster only the proposers of this many views listen, and all members once these views have failed. */
const FIRST_VIEWS = 3;

/**
 * Listens to joins and leaves if this worker may have to propose them; others read them in the outcome, with
 * signatures. In a run with a jury everyone listens, since verdicts arrive the same way.
 */
export class MembershipListener {
  readonly #isOpen: boolean;
  readonly #listen: () => { close(): void };
  #listening: { close(): void } | undefined;

  /** `isOpen`: listen at all times. */
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
