/** How a round ended, and what goes on around it. */
import type { Certificate } from '../consensus/round/round-state.ts';
import type { Sealed } from '../network/wire/wire.ts';
import type { Rejection } from '../run/contribution.ts';
import type { EventId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { Noun } from './evidence.ts';
import type { Certified } from './history.ts';

/** A round that is over. */
export interface Decision {
  readonly outcome: Outcome;
  readonly certificate: Certificate;
  /** The state it leads to. */
  readonly next: Certified;
}

/** A round that is listened to. */
export interface OpenRound {
  /** Takes in a noun as if a relay had brought it. */
  take(noun: Noun): void;
  /** Notes what a relay brought and is no event of its author. */
  refuse(rejection: Rejection, id: EventId | undefined): void;
  close(): void;
}

/** A round that is being decided. */
export interface Deciding extends OpenRound {
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
