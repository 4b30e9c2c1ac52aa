/** What a round driver is given, what it offers to the worker around it, and how a round ends. */
import type { Clock } from '../base/clock.ts';
import type { Certificate, Effect, RoundContext } from '../consensus/round/round-state.ts';
import type { Beginning } from '../consensus/round/timing.ts';
import type { Control } from '../network/wire/control.ts';
import type { Sealed } from '../network/wire/wire.ts';
import type { Rejection } from '../run/contribution.ts';
import type { Digest, EventId } from '../run/ids.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { Outcome } from '../run/outcome.ts';
import type { Missing, ProtocolMessage } from './evidence.ts';
import type { EvidenceStore } from './evidence-store.ts';
import type { Certified } from './history.ts';
import type { Entry, Journal } from './journal.ts';
import type { KeyWatch } from './key-watch.ts';
import type { Refresh } from './refresh.ts';
import type { Reporter } from './reporter.ts';

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
  take(noun: ProtocolMessage): void;
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
  /** Resolves when every reachable relay has sent what it has of this round, and it was looked at. */
  readonly looked: Promise<void>;
  /** Takes in this worker's own contribution. */
  enter(sent: Sealed): void;
}

/** What a round driver needs of the worker around it. */
export interface DriverPorts {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Signs, sends, receives and re-sends protocol messages. */
  readonly control: Control<ProtocolMessage>;
  readonly evidence: EvidenceStore;
  /** Holds what is signed before it is sent. */
  readonly journal: Pick<Journal, 'save'>;
  readonly reporter: Reporter;
  /** Which stake table an outcome may name. */
  readonly refresh: Pick<Refresh, 'offer' | 'judge'>;
  /** Called on evidence of another branch. */
  readonly branches: { hint(key?: string): void };
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

/** How long contributions took to arrive in the last rounds, in milliseconds: the adaptive deadline follows from it. */
export interface Delays {
  readonly recent: readonly number[];
  /** Adds those of a round. */
  learn(delays: readonly number[]): void;
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
