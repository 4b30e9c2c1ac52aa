/** One worker of a certified run as its parts, each with a narrow port: what the strategy of its rounds and their drivers work with. */
import type { Clock } from '../base/clock.ts';
import type { Certificate, Effect, RoundContext } from '../consensus/round/round-state.ts';
import type { Beginning } from '../consensus/round/timing.ts';
import type { EventCrypto } from '../network/event-crypto.ts';
import type { Sealed } from '../network/wire/wire.ts';
import type { Rejection } from '../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import type { Ledger } from '../run/ledger.ts';
import { leastSeconds } from '../run/lifetime.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { Outcome } from '../run/outcome.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { type DutyOptions, JuryDuty } from './checks/jury-duty.ts';
import { type Measurers, type Measuring, measurersOf } from './checks/scoring.ts';
import type { Showing } from './checks/showing.ts';
import type { Shown } from './decisions/admission.ts';
import {
  type Certified,
  type Electorate,
  electorateOf,
  stakesOf,
  withEntropy,
} from './decisions/chain.ts';
import {
  createEvidenceStore,
  type EvidenceStore,
  type Missing,
  type ProtocolMessage,
} from './decisions/evidence.ts';
import type { applyOutcome } from './decisions/outcomes.ts';
import { type AskPast, Branches } from './history/branches.ts';
import { Refresh, type RefreshPort } from './refresh.ts';
import { Attendance } from './rounds/attendance.ts';
import { type CertifiedPorts, createReporter, type Reporter } from './rounds/events.ts';
import { type Delays, type Entry, type Journal, KeyWatch, VoteMemory } from './rounds/journal.ts';
import { Backfill } from './rounds/keep-round.ts';
import type { Control } from './wire/control.ts';

/** What a member needs beside the ports of any worker. */
export interface MemberOptions extends Pick<InputPorts, 'beacon'> {
  readonly spec: RunSpec;
  readonly control: Control<ProtocolMessage>;
  readonly journal: Journal;
  /** End of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** In a run with tiers of width: which one this worker trains; default the whole model. */
  readonly tier?: number | undefined;
  /** What its join shows, where the run asks for something. */
  readonly admission?: Shown | undefined;
  /** Whether this worker wants seats now; default always. */
  readonly wantsSeats?: (() => boolean) | undefined;
  /** How the next table of stakes is had. */
  readonly refresh: RefreshPort;
  readonly ports: Pick<CertifiedPorts, 'clock' | 'wire' | 'report'>;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
  /** How losses are measured, in runs with screening or scores, and what makes this worker's own rows nobody else's. */
  readonly measuring?: Measuring | undefined;
  /** What relays have of the run, for when it turns out to have branches; and the branch that somebody chose. */
  readonly history: AskPast;
  readonly through?: Digest | undefined;
  /** How outcomes are applied; default by computing everything. */
  readonly apply?: DriverPorts['apply'];
  /** Keeps what placement gives this worker of a checkpoint. Never rejects. */
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
  /** Makes what shows private state that was drawn, in runs that draw any. */
  readonly showing?: ((reporter: Reporter) => Showing) | undefined;
  /** How steps of others are run again and what they start from is had, in runs with a jury. */
  readonly again?: Pick<DutyOptions, 'steps' | 'fetch' | 'sha256'> | undefined;
}

export interface Member extends Pick<MemberOptions, 'hold'> {
  readonly spec: RunSpec;
  readonly control: Control<ProtocolMessage>;
  readonly evidence: EvidenceStore;
  readonly reporter: Reporter;
  readonly branches: Branches;
  readonly attendance: Attendance;
  readonly refresh: Refresh;
  readonly past: Backfill;
  readonly memory: VoteMemory;
  readonly keyWatch: KeyWatch;
  readonly inputs: RoundInputs;
  readonly door: Door;
  readonly rounds: OpenRounds;
  readonly showing: Showing | undefined;
  readonly duty: JuryDuty | undefined;
  /** For the drivers of its rounds. */
  readonly driver: DriverPorts;
  close(): void;
}

/** View from which to suspect a fork; one or two absent proposers are normal, and asking for a run's whole past is dear. */
const SUSPECT_VIEW = 2;

/** Starts listening to proofs of faults of the whole run. */
export function createMember(options: MemberOptions): Member {
  const { spec, control, journal, chain, signal, history, through, measuring } = options;
  const { clock, report } = options.ports;
  const { me } = options.ports.wire;
  const evidence = createEvidenceStore(options.crypto, spec.limits);
  const reporter = createReporter(report);
  const rounds = new OpenRounds(evidence);
  const showing = options.showing?.(reporter);
  const refresh = new Refresh(spec, options.refresh, { evidence, reporter });
  const past = new Backfill({ control, refresh, reporter, store: journal.past });
  const branches = new Branches({ spec, history, through, clock, signal, reporter });
  const shared = { control, evidence, reporter, refresh, clock, signal };
  const inputs = new RoundInputs({ ...shared, beacon: (time) => options.beacon(time) });
  const memory = new VoteMemory({ ...shared, me, journal });
  const keyWatch = new KeyWatch(me, (round) => reporter.keyInUse(round));
  const { admission = { evidence: '' }, wantsSeats, hold, again } = options;
  const duty = again && new JuryDuty({ ...shared, ...again, me, take: (own) => rounds.take(own) });
  const take = (message: ProtocolMessage) => {
    rounds.take(message);
    duty?.heard(message);
  };
  const own = { spec, me, tip: chain.tip, tier: options.tier ?? 0 };
  const attendance = new Attendance({ ...shared, ...own, take, admission, wantsSeats });
  const refuse = rounds.refuse.bind(rounds);
  const listening = control.listenToFaults({ take, refuse });
  const door = new Door(spec, () => control.listenToMembers({ take, refuse }));
  const driver: DriverPorts = {
    ...shared,
    journal,
    branches,
    keyWatch,
    delays: memory.delays,
    apply: options.apply,
    ...measurersOf(spec, measuring, reporter),
    reveal: (round) => chain.reveal(round),
    obtain: (missing, state) => inputs.obtain(missing, state),
    onStall(round, stall) {
      reporter.stalled(round, stall);
      door.stalled(stall);
      if (stall.attempt > 0 || stall.view >= SUSPECT_VIEW) branches.hint();
    },
  };
  return {
    spec,
    control,
    evidence,
    reporter,
    refresh,
    branches,
    past,
    attendance,
    memory,
    keyWatch,
    inputs,
    rounds,
    door,
    showing,
    duty,
    driver,
    hold,
    close() {
      duty?.close();
      rounds.close();
      door.close();
      listening.close();
      control.close();
    },
  };
}

/** In a run of so many members all read who comes and goes. */
const FEW_MEMBERS = 64;
/** In a larger one those do who propose in so many first views of a round, and all of its members once these have failed. */
const FIRST_VIEWS = 3;

/**
 * Hears joins and leaves where this worker may have to propose them. All others read them in the outcome that lists them, which has their
 * signatures. In a run with a jury everybody hears them all the time: verdicts come the same way.
 */
class Door {
  readonly #spec: RunSpec;
  readonly #listen: () => { close(): void };
  #listening: { close(): void } | undefined;

  constructor(spec: RunSpec, listen: () => { close(): void }) {
    this.#spec = spec;
    this.#listen = listen;
  }

  /** A round begins. */
  begin({ electorate: { roster, committee } }: ReadyRound, me: WorkerId): void {
    const mayPropose = committee.members.slice(0, FIRST_VIEWS).includes(me);
    if (this.#spec.jury > 0 || roster.length <= FEW_MEMBERS || mayPropose) this.#open();
    else this.close();
  }

  /** A view of the round failed. */
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

/** Rounds that are listened to: the one in progress and the one before, for who still looks for its end. */
class OpenRounds {
  readonly #evidence: EvidenceStore;
  #open: readonly OpenRound[] = [];

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
  follow(round: OpenRound): void {
    const [before, ...older] = [...this.#open].reverse();
    for (const each of older) each.close();
    this.#open = before ? [before, round] : [round];
  }

  close(): void {
    for (const each of this.#open) each.close();
    this.#open = [];
  }
}

/** A round that is over. */
export interface Decision {
  readonly outcome: Outcome;
  readonly certificate: Certificate;
  /** The state it leads to. */
  readonly next: Certified;
}

/** A round that is listened to. */
export interface OpenRound {
  /** Takes in a protocol message as if a relay had brought it. */
  take(message: ProtocolMessage): void;
  /** Notes what a relay brought and is no event of its author. */
  refuse(rejection: Rejection, id: EventId | undefined): void;
  close(): void;
}

/** A round with a driver. */
export interface DrivenRound extends OpenRound {
  /** Resolves with the end of the round; rejects when the worker is stopped, or cannot follow what was certified. */
  readonly decided: Promise<Decision>;
  /** What was dropped until now, and why. */
  readonly refused: readonly Rejection[];
  /** A certificate is here; what it names may still be on its way. */
  readonly isCertified: boolean;
  /** This worker was one of those who decided: it knew the end of the round when they did. */
  readonly hasCommitted: boolean;
  /** Resolves when every reachable relay has sent what it has of this round, and it was looked at. */
  readonly looked: Promise<void>;
  /** Takes in this worker's own contribution. */
  enter(sent: Sealed): void;
}

/** What a round driver needs of the worker around it. */
export interface DriverPorts extends Measurers {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Signs, sends, receives and re-sends protocol messages. */
  readonly control: Control<ProtocolMessage>;
  readonly evidence: EvidenceStore;
  readonly apply?: typeof applyOutcome | undefined;
  /** Holds what is signed before it is sent. */
  readonly journal: Pick<Journal, 'save'>;
  readonly reporter: Reporter;
  /** Which stake table an outcome may name. */
  readonly refresh: Pick<Refresh, 'offer' | 'judge'>;
  /** Called on evidence of another branch. */
  readonly branches: { hint(key?: string): void; stuck(): void };
  readonly delays: Delays;
  /** Knows what this worker signed. */
  readonly keyWatch: Pick<KeyWatch, 'heard' | 'signed'>;
  /** This worker's value of its reveal chain for a round. */
  reveal(round: number): Digest | '';
  /** Gets a stake table or a beacon value, however long it takes. */
  obtain(missing: Missing, state: Certified): Promise<void>;
  /** A view ended without a certificate. */
  onStall(round: number, stall: Extract<Effect, { readonly type: 'stalled' }>): void;
}

/** What it takes to drive a round to its end. */
export interface DriverOptions {
  readonly state: Certified;
  readonly context: RoundContext;
  readonly ports: DriverPorts;
  /** What was signed in this round before; undefined where nothing was. */
  readonly entry: Entry | undefined;
  /** When the round began for this worker. */
  readonly beginning: Beginning;
  /** The first recovery epoch that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** A quorum of commits of the round before. */
  readonly votes: ListedVotes | null;
  /** Others may have decided the round: what members copied of it is asked for at once. */
  readonly isBehind: boolean;
}

/** A round that can be opened: its entropy and stakes are here. */
export interface ReadyRound {
  readonly state: Certified;
  readonly electorate: Electorate;
}

interface InputPorts {
  /** The beacon value after an outcome of this time. Rejects while nobody has it. */
  beacon(time: number): Promise<Digest>;
  readonly control: Pick<Control<ProtocolMessage>, 'forgetBefore' | 'admit' | 'require'>;
  readonly evidence: EvidenceStore;
  readonly refresh: Pick<Refresh, 'begin' | 'obtain'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Rounds whose messages are kept: a vote of the round before is evidence of the next one. */
const KEPT_ROUNDS = 2;
/** Between two tries to get a stake table or a beacon value. */
const AGAIN_MS = 2000;

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
    const found = stakesOf(ledger, this.#ports.evidence);
    if (found.ok || !('missing' in found)) return;
    for (const each of found.missing) await this.obtain(each, { round });
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
        await clock.sleep(AGAIN_MS, signal);
      }
    }
  }
}
