/**
 * Round 0 of a run with sessions. Which keys act for founders becomes known during the round, from their joins. When a
 * founder joins through another key, the round is opened again with that key in its seat, as after a restart.
 */
import { deferred } from '../../base/async.ts';
import { withoutRequests } from '../../consensus/round/round-state.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId } from '../../run/ids.ts';
import type { Decision, ReadyRound } from '../decisions/chain.ts';
import { ActingFounders, roundWith } from '../decisions/founders.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Entry } from './journal.ts';
import type { DrivenRound, RunMember } from './round.ts';

/** Opens the round with these founders' keys; passes every message that arrives to `onMessage`. */
export type OpenDriven = (
  round: ReadyRound,
  entry: Entry | undefined,
  onMessage?: (message: ProtocolMessage) => void,
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

  #hear(message: ProtocolMessage): void {
    // the driver may be in the middle of a step
    if (this.#acting.take(message)) queueMicrotask(() => this.#reopen());
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
