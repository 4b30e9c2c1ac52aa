/**
 * Round 0 of a run with sessions. Which keys act for founders becomes known during the round, from their joins. When a
 * founder joins through another key, the round is opened again with that key in its seat, as after a restart.
 */
import { deferred } from '../../base/async.ts';
import { withoutRequests } from '../../consensus/round/round-state.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Decision, ReadyRound } from '../decisions/chain.ts';
import { ActingFounders, roundWith, seatFounders } from '../decisions/founders.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Entry } from './journal.ts';
import type { DrivenRound, DriverOptions, RunMember } from './round.ts';

/** Opens the round with these founders' keys. */
export type OpenDriven = (
  round: ReadyRound,
  entry: Entry | undefined,
  mayCount?: DriverOptions['mayCount'],
) => DrivenRound;

export class FirstRound implements DrivenRound {
  readonly decided: Promise<Decision>;
  readonly caughtUp: Promise<void>;
  readonly #end = deferred<Promise<Decision>>();
  readonly #caughtUp = deferred<void>();
  readonly #round: ReadyRound;
  readonly #member: RunMember;
  readonly #open: OpenDriven;
  readonly #acting: ActingFounders;
  #driven: DrivenRound;
  #isClosed = false;

  constructor(round: ReadyRound, entry: Entry | undefined, member: RunMember, open: OpenDriven) {
    this.#round = round;
    this.#member = member;
    this.#open = open;
    this.#acting = new ActingFounders(round.state, member.evidence);
    for (const message of member.evidence.messages()) this.#acting.take(message);
    this.decided = this.#end.promise.then((decision) => decision);
    this.decided.catch(() => undefined);
    this.caughtUp = this.#caughtUp.promise;
    this.#driven = this.#openWith(entry);
  }

  get refused(): readonly Rejection[] {
    return this.#driven.refused;
  }

  get isCertified(): boolean {
    return this.#driven.isCertified;
  }

  get hasCommitted(): boolean {
    return this.#driven.hasCommitted;
  }

  get entry(): Entry {
    return this.#driven.entry;
  }

  enter(sent: Parameters<DrivenRound['enter']>[0]): void {
    this.#driven.enter(sent);
  }

  take(message: ProtocolMessage): void {
    this.#driven.take(message);
  }

  refuse(rejection: Rejection, id: EventId | undefined): void {
    this.#driven.refuse(rejection, id);
  }

  close(): void {
    this.#isClosed = true;
    this.#driven.close();
  }

  #openWith(entry: Entry | undefined): DrivenRound {
    const { control, evidence } = this.#member;
    const { state } = this.#round;
    const seated = roundWith(state, this.#acting.joins, evidence);
    const keys = [state, seated.state].flatMap(({ ledger }) =>
      ledger.members.map(({ key }) => key),
    );
    control.admit(keys);
    evidence.admit(keys);
    const driven = this.#open(seated, entry, (message) => this.#hear(message));
    void driven.caughtUp.then(() => this.#caughtUp.settle());
    const end = () => this.#end.settle(driven.decided);
    // a round that was opened again ends with an error
    driven.decided.then(end, () => this.#driven === driven && end());
    return driven;
  }

  /** Takes the joins in a message; returns whether the message counts under the key of its author. */
  #hear(message: ProtocolMessage): boolean {
    // the driver may be in the middle of a step
    if (this.#acting.take(message)) queueMicrotask(() => this.#reopen());
    if (message.type === 'proposal') queueMicrotask(() => this.#retake(message.digest));
    return this.#mayCount(message);
  }

  /**
   * Reports whether a vote counts for its outcome: a session's only if the outcome lists its join, else a certificate
   * would hold here alone. While the outcome is not known, votes of sessions wait.
   */
  #mayCount(message: ProtocolMessage): boolean {
    if (message.type !== 'vote' && message.type !== 'proposal') return true;
    const { digest, key } = message;
    if (!this.#isSession(key)) return true;
    const { evidence } = this.#member;
    const proposal = message.type === 'proposal' ? message : evidence.proposals(digest)[0];
    if (proposal === undefined) return false;
    const { ledger } = seatFounders(this.#round.state, proposal.outcome.joins, evidence);
    return ledger.members.some((member) => member.key === key);
  }

  #isSession(key: WorkerId): boolean {
    const { founders } = this.#round.state.spec;
    return !founders.includes(key) && this.#acting.joins.some((join) => join.key === key);
  }

  /** Takes votes of sessions again that arrived before the outcome. */
  #retake(digest: Digest): void {
    const { evidence } = this.#member;
    if (this.#isClosed || evidence.proposals(digest).length !== 1) return;
    for (const message of evidence.messages()) {
      if (message.type !== 'vote' || message.digest !== digest) continue;
      if (this.#isSession(message.key)) this.#driven.take(message);
    }
  }

  #reopen(): void {
    if (this.#isClosed || this.isCertified) return;
    const before = this.#driven;
    const { entry } = before;
    this.#driven = this.#openWith({ ...entry, machine: withoutRequests(entry.machine) });
    before.close();
    for (const message of this.#member.evidence.messages()) this.#driven.take(message);
  }
}
