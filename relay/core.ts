/** State shared by all connections of a relay, and the connection as the verbs (EVENT, REQ, AUTH, ...) see it. */
import type { EventLog } from './durable/event-log.ts';
import { LiveIndex, type Subscription } from './event-index.ts';
import type { Adversary } from './faults/adversary.ts';
import type { FaultSettings } from './faults/settings.ts';
import { defaultLimits, type Limits } from './limits.ts';
import type { EventFrames } from './messages.ts';
import type { IdList } from './negentropy.ts';
import {
  type AuthMode,
  createStandardPolicies,
  type Policy,
  type PolicySession,
  proofOfWork,
} from './policies.ts';
import { ours, type Profile, type ProfileName, profiles } from './profiles.ts';
import { Buckets, Meter } from './rates.ts';
import type { Store } from './store.ts';
import { type Account, Turns } from './turns.ts';

const countNames = [
  'connectionsTotal',
  'connectionsRefused',
  'eventsAccepted',
  'eventsDuplicate',
  'eventsRefused',
  'eventsSwallowed',
  'eventsDiscarded',
  'framesIn',
  'framesOut',
  'bytesIn',
  'bytesOut',
  'deliveriesDropped',
  'deliveriesDuplicated',
  'deliveriesDelayed',
  'twinsSent',
  'eosesFalse',
  'eosesWithheld',
] as const;

/** Counters since the relay started. */
export type Counts = Record<(typeof countNames)[number], number>;

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
  /** Resolves when the reader can take more, is gone, or no longer wants the data. */
  drained(isWanted: () => boolean): Promise<void>;
  /** Wakes callers of `drained`, which check again whether their data is still wanted. */
  wake(): void;
  /** Bytes it was sent and has not taken yet. */
  readonly unsentBytes: number;
  /** Bytes it sent that wait here: messages whose turn has not come, and one that has not arrived whole. */
  readonly unreadBytes: number;
  /** Pings a silent reader, closes one that does not answer, and forgets abandoned syncs. */
  checkIdle(nowMs: number): void;
  close(): void;
  terminate(): void;
}

const zeroCounts = () => Object.fromEntries(countNames.map((name) => [name, 0])) as Counts;

/** What a relay is, wherever it listens. */
export interface CoreOptions {
  /** Largest event; default 2 MiB. */
  readonly maxEventBytes?: number;
  /** The other limits, where they differ from the defaults. */
  readonly limits?: Partial<Limits>;
  /** Behaves like another relay: its limits, words and NIP-11 document. `limits` still count. */
  readonly strict?: ProfileName;
  /** Who must authenticate (NIP-42); default `none`. */
  readonly auth?: AuthMode;
  /** Leading zero bits an id must have (NIP-13); default 0. */
  readonly minPow?: number;
  /**
   * The URL others know this relay by (by name, or behind a proxy): AUTH (NIP-42) and requests to vanish (NIP-62) must
   * name its host. Without it they must name an address this relay is reached at; what clients call it in their `Host`
   * header proves nothing. With it, `X-Forwarded-For` from a loopback or private address is believed.
   */
  readonly publicUrl?: string;
  readonly name?: string;
  readonly faults?: FaultSettings;
  /** Seeds the faults; default 0. */
  readonly seed?: number;
  /** Replaces the standard policies. */
  readonly policies?: readonly Policy[];
  /** Milliseconds since the epoch; default `Date.now`. */
  readonly nowMs?: () => number;
}

const profileOf = ({ strict }: CoreOptions): Profile =>
  strict === undefined ? ours : profiles[strict];

/** The limits of the profile, where the options do not say otherwise. */
export function limitsOf(options: CoreOptions): Limits {
  const { maxEventBytes, minPow } = options;
  return {
    ...defaultLimits,
    ...profileOf(options).limits,
    ...options.limits,
    ...(maxEventBytes === undefined ? {} : { maxEventBytes }),
    ...(minPow === undefined ? {} : { minPow }),
  };
}

/** A relay without connections yet. */
export function createCore(
  options: CoreOptions,
  limits: Limits,
  store: Store,
  log: EventLog | undefined,
): Core {
  return {
    name: options.name ?? 'nostrain relay',
    limits,
    profile: profileOf(options),
    auth: options.auth ?? 'none',
    publicUrl: options.publicUrl,
    messages: new Meter(limits.messageRates),
    connections: new Meter(limits.connectionRates),
    publicMessages: new Buckets(limits.publicAddress?.messages),
    publicBytes: new Buckets(limits.publicAddress?.bytes),
    policies: [...(options.policies ?? createStandardPolicies(limits)), ...secret(options.faults)],
    faults: options.faults ?? {},
    seed: options.seed ?? 0,
    store,
    log,
    sessions: new Set(),
    live: new LiveIndex(),
    subscribed: { bytes: 0 },
    turns: new Turns(),
    counts: zeroCounts(),
    nowMs: options.nowMs ?? Date.now,
  };
}

/** Work that the document says nothing of. */
const secret = ({ work = 0 }: FaultSettings = {}): readonly Policy[] =>
  work === 0 ? [] : [(event) => proofOfWork(event, { limits: { minPow: work } })];
