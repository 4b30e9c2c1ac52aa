/** One worker of a certified run as its parts, each with a narrow port: what the strategy of its rounds and their drivers work with. */
import type { EventCrypto } from '../network/event-crypto.ts';
import type { Control } from '../network/wire/control.ts';
import type { Rejection } from '../run/contribution.ts';
import type { Digest, EventId } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { Attendance } from './attendance.ts';
import { type AskPast, Branches } from './branches.ts';
import type { DriverPorts, OpenRound } from './driven-round.ts';
import type { CertifiedPorts } from './events.ts';
import type { ProtocolMessage } from './evidence.ts';
import { createEvidenceStore, type EvidenceStore } from './evidence-store.ts';
import type { Journal } from './journal.ts';
import { KeyWatch } from './key-watch.ts';
import { Refresh, type RefreshPort } from './refresh.ts';
import { createReporter, type Reporter } from './reporter.ts';
import { type InputSources, RoundInputs } from './round-inputs.ts';
import { VoteMemory } from './vote-memory.ts';

/** What a member needs beside the ports of any worker. */
export interface MemberOptions extends InputSources {
  readonly spec: RunSpec;
  readonly control: Control<ProtocolMessage>;
  readonly journal: Journal;
  /** End of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** How the next table of stakes is had. */
  readonly refresh: RefreshPort;
  readonly ports: Pick<CertifiedPorts, 'clock' | 'wire' | 'report'>;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
  /** What relays have of the run, for when it turns out to have branches; and the branch that somebody chose. */
  readonly history: AskPast;
  readonly through?: Digest | undefined;
}

export interface Member {
  readonly spec: RunSpec;
  readonly control: Control<ProtocolMessage>;
  readonly evidence: EvidenceStore;
  readonly reporter: Reporter;
  readonly branches: Branches;
  readonly attendance: Attendance;
  readonly refresh: Refresh;
  readonly memory: VoteMemory;
  readonly keyWatch: KeyWatch;
  readonly inputs: RoundInputs;
  readonly rounds: OpenRounds;
  /** For the drivers of its rounds. */
  readonly driver: DriverPorts;
  close(): void;
}

/** View from which to suspect a fork; one or two absent proposers are normal, and asking for a run's whole past is dear. */
const SUSPECT_VIEW = 2;

/** Starts listening to joins, leaves and proofs of the whole run. */
export function createMember(options: MemberOptions): Member {
  const { spec, control, journal, chain, signal, history, through } = options;
  const { clock, wire, report } = options.ports;
  const { me } = wire;
  const evidence = createEvidenceStore(options.crypto);
  const reporter = createReporter(report);
  const rounds = new OpenRounds(evidence);
  const refresh = new Refresh(spec, options.refresh, { evidence, reporter });
  const branches = new Branches({ spec, history, through, clock, signal, reporter });
  const shared = { control, evidence, reporter, refresh, clock, signal };
  const inputs = new RoundInputs({
    ...shared,
    stakes: (id) => options.stakes(id),
    beacon: (time) => options.beacon(time),
  });
  const memory = new VoteMemory({ ...shared, me, journal });
  const keyWatch = new KeyWatch(me, (round) => reporter.keyInUse(round));
  const { tip } = chain;
  const take = (noun: ProtocolMessage) => rounds.take(noun);
  const attendance = new Attendance({ ...shared, spec, me, tip, take });
  const listening = control.listenToMembers({
    take,
    refuse: (rejection, id) => rounds.refuse(rejection, id),
  });
  const driver: DriverPorts = {
    ...{ ...shared, journal, branches, keyWatch, delays: memory.delays },
    reveal: (round) => chain.reveal(round),
    obtain: (missing, state) => inputs.obtain(missing, state),
    onStall(round, stall) {
      reporter.stalled(round, stall);
      if (stall.attempt > 0 || stall.view >= SUSPECT_VIEW) branches.hint();
    },
  };
  return {
    ...{ spec, control, evidence, reporter, refresh, branches },
    ...{ attendance, memory, keyWatch, inputs, rounds, driver },
    close() {
      rounds.close();
      listening.close();
      control.close();
    },
  };
}

/** Rounds that are listened to: the one in progress and the one before, for who still looks for its end. */
class OpenRounds {
  readonly #evidence: EvidenceStore;
  #open: readonly OpenRound[] = [];

  constructor(evidence: EvidenceStore) {
    this.#evidence = evidence;
  }

  /** What is of the whole run goes to the round in progress. */
  take(noun: ProtocolMessage): void {
    const now = this.#open.at(-1);
    if (now) now.take(noun);
    else this.#evidence.add(noun);
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
