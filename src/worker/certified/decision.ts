/** How a round ended, and what goes on around it. */
import type { Certificate } from '../../consensus/round/round-state.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
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
