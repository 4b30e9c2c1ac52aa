/** What all connections of one relay share, and what the verbs (EVENT, REQ, COUNT, CLOSE, AUTH) may ask of a connection. */
import type { EventLog } from './durable/event-log.ts';
import type { FaultSettings } from './faults/fault.ts';
import type { Misdeeds } from './faults/misdeeds.ts';
import type { EventFrames } from './frames.ts';
import type { Limits } from './limits.ts';
import type { LiveIndex, Subscription } from './live-index.ts';
import type { IdList } from './negentropy/id-list.ts';
import type { AuthMode, Policy, PolicySession } from './policies/policy.ts';
import type { Meter } from './rates.ts';
import type { Store } from './store.ts';
import type { Profile } from './strict/profile.ts';

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
  readonly policies: readonly Policy[];
  readonly faults: FaultSettings;
  readonly seed: number;
  readonly store: Store;
  /** Where events are kept on disk, if they are. */
  readonly log: EventLog | undefined;
  readonly sessions: Set<Connection>;
  /** What is open on all of them. */
  readonly live: LiveIndex;
  readonly counts: Counts;
  nowMs(): number;
}

/** One reader and writer, as the verbs see it. */
export interface Connection extends PolicySession {
  readonly core: Core;
  readonly subscriptions: Map<string, Subscription>;
  /** Open syncs (NIP-77). */
  readonly syncs: Map<string, IdList>;
  /** Sends the challenge (NIP-42) unless this connection has it already. */
  challenge(): void;
  /** Counts a key as authenticated if the challenge is the one sent; false when it is not, or there are too many. */
  admit(pubkey: string, challenge: string): boolean;
  readonly misdeeds: Misdeeds;
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
