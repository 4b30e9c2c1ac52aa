/** What all connections of one relay share, and what the verbs (EVENT, REQ, COUNT, CLOSE, AUTH) may ask of a connection. */
import type { EventLog } from './durable/event-log.ts';
import type { Adversary } from './faults/adversary.ts';
import type { FaultSettings } from './faults/fault.ts';
import type { EventFrames } from './frames.ts';
import type { Limits } from './limits.ts';
import type { LiveIndex, Subscription } from './live-index.ts';
import type { IdList } from './negentropy/id-list.ts';
import type { AuthMode, Policy, PolicySession } from './policies/policy.ts';
import type { Buckets, Meter } from './rates.ts';
import type { Store } from './store.ts';
import type { Profile } from './strict/profile.ts';
import type { Account, Turns } from './turns.ts';

/** Counted since the relay started. */
export interface Counts {
  connectionsTotal: number;
  connectionsRefused: number;
  eventsAccepted: number;
  eventsDuplicate: number;
  eventsRefused: number;
  eventsSwallowed: number;
  eventsDiscarded: number;
  framesIn: number;
  framesOut: number;
  bytesIn: number;
  bytesOut: number;
  deliveriesDropped: number;
  deliveriesDuplicated: number;
  deliveriesDelayed: number;
  twinsSent: number;
  eosesFalse: number;
  eosesWithheld: number;
}

export interface Core {
  readonly name: string;
  readonly limits: Limits;
  readonly profile: Profile;
  readonly auth: AuthMode;
  /** The URL others know the relay by, when it is not where it listens. */
  readonly publicUrl: string | undefined;
  /** Messages of each address. */
  readonly messages: Meter;
  /** Connections from each address. */
  readonly connections: Meter;
  /** Messages and their bytes from each public address. */
  readonly publicMessages: Buckets;
  readonly publicBytes: Buckets;
  readonly policies: readonly Policy[];
  readonly faults: FaultSettings;
  readonly seed: number;
  readonly store: Store;
  /** Where events are kept on disk, if they are. */
  readonly log: EventLog | undefined;
  readonly sessions: Set<Connection>;
  /** What is open on all of them. */
  readonly live: LiveIndex;
  /** Bytes of all that is open. */
  readonly subscribed: { bytes: number };
  /** How the event loop is shared between them. */
  readonly turns: Turns;
  readonly counts: Counts;
  nowMs(): number;
}

/** An open sync (NIP-77), and when it was last used. */
export interface Sync {
  readonly ids: IdList;
  readonly usedMs: number;
}

/** One reader and writer, as the verbs see it. */
export interface Connection extends PolicySession {
  readonly core: Core;
  readonly subscriptions: Map<string, Subscription>;
  readonly syncs: Map<string, Sync>;
  /** What it has used of the event loop. */
  readonly account: Account;
  /** Whether it can still be answered. */
  readonly isOpen: boolean;
  /** Sends the challenge (NIP-42) unless this connection has it already. */
  challenge(): void;
  /** Counts a key as authenticated if the challenge is the one sent; false when it is not, or there are too many. */
  admit(pubkey: string, challenge: string): boolean;
  readonly adversary: Adversary;
  /** Sends a control message as it is; faults do not touch it. */
  say(...message: readonly unknown[]): void;
  /** Answers an EVENT. */
  answer(id: string, accepted: boolean, message: string): void;
  /** Sends an event to one subscription, as the faults have it; resolves once every copy has left or was lost. */
  deliver(frames: EventFrames, subscription: string): Promise<unknown> | undefined;
  /** Resolves when the reader has caught up enough for more, or is gone, or what the caller has is no longer wanted. */
  room(isWanted: () => boolean): Promise<void>;
  /** Whoever waits for room looks whether it is still wanted. */
  wake(): void;
  /** Bytes it was sent and has not taken yet. */
  readonly unsentBytes: number;
  /** Bytes it sent that wait here: messages whose turn has not come, and one that has not arrived whole. */
  readonly unreadBytes: number;
  /** Asks a silent reader for a sign of life, and hangs up on one that gives none; forgets syncs nobody goes on with. */
  checkIdle(nowMs: number): void;
  close(): void;
  terminate(): void;
}

export const zeroCounts = (): Counts => ({
  connectionsTotal: 0,
  connectionsRefused: 0,
  eventsAccepted: 0,
  eventsDuplicate: 0,
  eventsRefused: 0,
  eventsSwallowed: 0,
  eventsDiscarded: 0,
  framesIn: 0,
  framesOut: 0,
  bytesIn: 0,
  bytesOut: 0,
  deliveriesDropped: 0,
  deliveriesDuplicated: 0,
  deliveriesDelayed: 0,
  twinsSent: 0,
  eosesFalse: 0,
  eosesWithheld: 0,
});
