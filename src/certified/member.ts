/** A worker as part of a certified run: what it keeps from round to round beside its model. */
import type { Effect } from '../consensus/round/round-state.ts';
import { stateBytes } from '../consensus/state-root.ts';
import type { EventCrypto } from '../network/event-crypto.ts';
import type { Control } from '../network/wire/control.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { ledgerBytes } from '../run/ledger.ts';
import type { Outcome } from '../run/outcome.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { Attendance } from './attendance.ts';
import { type AskPast, Branches } from './branches.ts';
import type { Decision, OpenRound } from './decision.ts';
import { type Electorate, electorateOf, stakesOf } from './electorate.ts';
import type { CertifiedPorts } from './events.ts';
import type { Missing, Noun } from './evidence.ts';
import { type Certified, withEntropy } from './history.ts';
import type { Entry, Journal } from './journal.ts';
import { createPool, type Pool } from './pool.ts';
import { Refresh, type RefreshPort } from './refresh.ts';
import { createTell, type Tell } from './tell.ts';

/** What a member needs beside the ports of any worker. */
export interface MemberOptions {
  readonly spec: RunSpec;
  readonly run: Digest;
  readonly control: Control<Noun>;
  readonly journal: Journal;
  /** End of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** The table of stakes of that id. Rejects when it cannot be had. */
  stakes(snapshot: Digest): Promise<ReadonlyMap<WorkerId, bigint>>;
  /** How the next table of stakes is had. */
  readonly refresh: RefreshPort;
  /** The beacon value after an outcome of this time. Rejects while nobody has it. */
  beacon(time: number): Promise<Digest>;
  readonly ports: Pick<CertifiedPorts, 'clock' | 'wire' | 'report'>;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
  /** What relays have of the run, for when it turns out to have branches; and the branch that somebody chose. */
  readonly history: AskPast;
  readonly through?: Digest | undefined;
}

/** A round that can be played: its entropy and stakes are here. */
export interface Start {
  readonly state: Certified;
  readonly electorate: Electorate;
}

/** What is known of what this worker signed in a round before it was started. */
export interface Memory {
  readonly entry: Entry | undefined;
  /** The first attempt that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
}

/** Rounds whose nouns are kept: a vote of the round before is evidence of the next one. */
const KEPT_ROUNDS = 2;
/** Rounds that the adaptive deadline learns from. */
const LEARNT_ROUNDS = 3;
/** How many publish a checkpoint: one may be gone before it is out. */
const KEEPERS = 2;
/** That a proposer or two are away is nothing odd: asking for a run's whole past costs more. */
const ODD_VIEW = 2;
/** Between two tries to get a stake table or a beacon value. */
const AGAIN_MS = 2000;
/** How long relays may take to bring what this worker signed before. */
const LOOK_MS = 5000;

export class Member {
  readonly spec: RunSpec;
  readonly control: Control<Noun>;
  readonly pool: Pool;
  readonly journal: Journal;
  readonly tell: Tell;
  readonly refresh: Refresh;
  readonly branches: Branches;
  readonly attendance: Attendance;
  /** An outcome of this session lists its leave. */
  hasLeft = false;
  /** Its last contribution that relays took in this session. */
  #published: EventId | undefined;
  delays: readonly number[] = [];
  readonly #options: MemberOptions;
  readonly #close: () => void;
  /** Rounds that are listened to: the one in progress and the one before, for who still looks for its end. */
  #open: readonly OpenRound[] = [];
  #entry: Promise<Entry | undefined>;
  #announced: Digest | undefined;
  /** How long manifests took, round by round. */
  #arrivals: readonly (readonly number[])[] = [];

  constructor(options: MemberOptions) {
    const { spec, control, journal, ports } = options;
    this.#options = options;
    this.spec = spec;
    this.control = control;
    this.pool = createPool(options.crypto);
    this.journal = journal;
    this.tell = createTell(ports.report);
    this.attendance = new Attendance(spec);
    this.refresh = new Refresh(spec, options.refresh, this);
    const { history, through, signal } = options;
    const { clock } = ports;
    this.branches = new Branches({ spec, history, through, clock, signal, tell: this.tell });
    this.#entry = journal.load();
    const listening = control.listenToMembers({
      take: (noun) => this.#take(noun),
      refuse: (rejection, id) => this.#open.at(-1)?.refuse(rejection, id),
    });
    this.#close = () => listening.close();
  }

  #take(noun: Noun): void {
    const now = this.#open.at(-1);
    if (now) now.take(noun);
    else this.pool.add(noun);
  }

  /** The round once everything is here that it is drawn with. */
  async ready(certified: Certified): Promise<Start> {
    this.pool.forgetBefore(certified.round - KEPT_ROUNDS);
    this.control.forgetBefore(certified.round - KEPT_ROUNDS);
    const ledgers = [certified.ledger, ...(certified.before ? [certified.before.ledger] : [])];
    this.control.admit(ledgers.flatMap(({ members }) => members.map(({ key }) => key)));
    for (;;) {
      const entropy = withEntropy(certified, this.pool);
      const stakes = stakesOf(certified.ledger, this.pool);
      if (entropy.ok && stakes.ok) {
        const state = entropy.value;
        this.refresh.begin(state);
        return { state, electorate: electorateOf(state, stakes.value) };
      }
      const missing = [entropy, stakes].flatMap((each) =>
        !each.ok && 'missing' in each ? each.missing : [],
      );
      for (const each of missing) await this.obtain(each, certified);
    }
  }

  /** Gets a stake table or a beacon value into the pool, however long it takes. */
  async obtain({ what, id }: Missing, { round }: Certified): Promise<void> {
    const { stakes, beacon, ports, signal } = this.#options;
    for (;;) {
      try {
        if (what === 'snapshot') this.pool.addStakes(id, await stakes(id));
        else if (what === 'beacon') this.pool.addBeacon(Number(id), await beacon(Number(id)));
        return;
      } catch (error) {
        signal.throwIfAborted();
        const why = error instanceof Error ? error.message : String(error);
        this.tell.unavailable(round, what, why);
        await ports.clock.sleep(AGAIN_MS, signal);
      }
    }
  }

  /** What this worker signed in a round. Who has nothing on disk looks what relays have of it. */
  async memoryOf({ round, parent }: Certified): Promise<Memory> {
    const entry = await this.#entry;
    if (this.delays.length === 0 && entry) {
      this.#arrivals = [entry.delays];
      this.delays = entry.delays;
    }
    if (entry) {
      const isOfRound = entry.round === round && entry.parent === parent;
      return { entry: isOfRound ? entry : undefined, voteFrom: 0 };
    }
    if (!this.attendance.isReturning) return { entry: undefined, voteFrom: 0 };
    await this.#look(round);
    const { me } = this.#options.ports.wire;
    const isOwn = (noun: Noun) => noun.key === me && 'round' in noun && noun.round === round;
    const hasForgotten = round > 0 || [...this.pool.nouns()].some(isOwn);
    return { entry, voteFrom: hasForgotten ? 1 : 0 };
  }

  async #look(round: number): Promise<void> {
    const { clock } = this.#options.ports;
    const { signal } = this.#options;
    const looked = new AbortController();
    const listening = this.control.listen(round, {
      take: (noun) => void this.pool.add(noun),
      onCaughtUp: () => looked.abort(),
    });
    const either = AbortSignal.any([signal, looked.signal]);
    if (!listening.caughtUp) await clock.sleep(LOOK_MS, either).catch(() => undefined);
    listening.close();
    signal.throwIfAborted();
  }

  learnDelays(delays: readonly number[]): void {
    this.#arrivals = [...this.#arrivals, delays].slice(-LEARNT_ROUNDS);
    this.delays = this.#arrivals.flat();
  }

  /** The value of this worker's reveal chain for a round. */
  reveal(round: number): Digest | '' {
    return this.#options.chain.reveal(round);
  }

  /** A view ended without a certificate. After some of them, perhaps the others have gone another way. */
  noteStall(round: number, stall: Extract<Effect, { readonly type: 'stalled' }>): void {
    this.tell.stalled(round, stall);
    if (stall.attempt > 0 || stall.view >= ODD_VIEW) this.branches.hint();
  }

  /** Lets go of the rounds of a branch that is left. */
  leaveBranch(): void {
    this.#closeRounds();
    this.attendance.isBehind = true;
    this.branches.taken();
  }

  /** Goes on listening to this round; the one before stays open, older ones do not. */
  follow(deciding: OpenRound): void {
    const [before, ...older] = [...this.#open].reverse();
    for (const each of older) each.close();
    this.#open = before ? [before, deciding] : [deciding];
  }

  /** Whether it is out by its own wish. A leave of an earlier session does not end the one that was started to come back. */
  noteLeaves({ round, leaves }: Outcome): void {
    const { me } = this.#options.ports.wire;
    if (this.attendance.isReturning || !leaves.some(({ key }) => key === me)) return;
    this.hasLeft = true;
    this.tell.left(round);
  }

  notePublished(manifest: EventId): void {
    this.#published = manifest;
  }

  hasPublished(manifest: EventId): boolean {
    return this.#published === manifest;
  }

  /** Asks to be in the roster, until an outcome lists it. */
  announce({ run, parent, recent, ledger }: Certified): void {
    const { wire } = this.#options.ports;
    const known = ledger.members.find(({ key }) => key === wire.me);
    const isIn = known !== undefined && known.tip !== null;
    // who was listed and dropped out again has to ask anew
    if (isIn) this.#announced = undefined;
    const isFresh = this.#announced !== undefined && recent.includes(this.#announced);
    if (isIn || isFresh || ledger.faulted.includes(wire.me)) return;
    this.#announced = parent;
    const { tip } = this.#options.chain;
    const { noun, event } = this.control.sign({
      type: 'join',
      run,
      after: parent,
      tip,
      evidence: '',
    });
    this.control.send(event);
    this.#take(noun);
  }

  /** Publishes the state for newcomers, every so many rounds; two of the committee do, in the order of its draw. */
  checkpoint({ electorate }: Start, { next }: Decision): void {
    const { ports, spec } = this.#options;
    const isDue = next.round % spec.checkpoint.every === 0;
    const keepers = electorate.committee.members.slice(0, KEEPERS);
    if (!isDue || !keepers.includes(ports.wire.me)) return;
    const state = {
      ...{ round: next.round - 1, outcome: next.parent, ledgerRoot: next.ledgerRoot },
      ...{ model: stateBytes(next), ledger: ledgerBytes(next.ledger) },
    };
    const failed = () => this.tell.unkept(next.round - 1);
    void this.control.checkpoint(state).then((isKept) => isKept || failed(), failed);
  }

  close(): void {
    this.#closeRounds();
    this.#close();
    this.control.close();
  }

  #closeRounds(): void {
    for (const each of this.#open) each.close();
    this.#open = [];
  }
}
