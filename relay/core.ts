/**
 * State shared by all connections of a relay, and the connection as seen by the handlers of EVENT, REQ, AUTH and
 * others.
 */
import type { EventLog } from './durable/event-log.ts';
import { LiveIndex, type Subscription } from './event-index.ts';
import type { Adversary, SetTimer } from './faults/adversary.ts';
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

type Taken = 'name' | 'auth' | 'policies' | 'faults' | 'seed' | 'setTimer' | 'nowMs';

export interface Core extends Required<Pick<CoreOptions, Taken>> {
  readonly limits: Limits;
  readonly profile: Profile;
  /** Public URL of the relay, if it differs from the address it listens on. */
  readonly publicUrl: string | undefined;
  /** Messages per address. */
  readonly messages: Meter;
  /** Connections per address. */
  readonly connections: Meter;
  /** Messages and their bytes per public address. */
  readonly publicMessages: Buckets;
  readonly publicBytes: Buckets;
  readonly store: Store;
  /** The log on disk, if events are stored there. */
  readonly log: EventLog | undefined;
  readonly sessions: Set<Connection>;
  /** Index of the open subscriptions of all connections. */
  readonly live: LiveIndex;
  /** Bytes of all open subscriptions. */
  readonly subscribed: { bytes: number };
  /** Scheduler of work between connections. */
  readonly turns: Turns;
  readonly counts: Counts;
}

/** An open sync (NIP-77), and when it was last used. */
export interface Sync {
  readonly ids: IdList;
  readonly usedMs: number;
}

/** A connection, as the handlers see it. */
export interface Connection extends PolicySession {
  readonly core: Core;
  readonly subscriptions: Map<string, Subscription>;
  readonly syncs: Map<string, Sync>;
  /** Event loop time that it has used. */
  readonly account: Account;
  /** Whether it can still receive answers. */
  readonly isOpen: boolean;
  /** Sends the challenge (NIP-42), unless it was sent before. */
  challenge(): void;
  /**
   * Marks a key as authenticated if the challenge matches; returns false if it does not, or if there are too many keys.
   */
  admit(pubkey: string, challenge: string): boolean;
  readonly adversary: Adversary;
  /** Sends a control message; faults do not apply to it. */
  say(...message: readonly unknown[]): void;
  /** Answers an EVENT. */
  answer(id: string, accepted: boolean, message: string): void;
  /** Sends an event to one subscription, subject to the faults; resolves once every copy was sent or dropped. */
  deliver(frames: EventFrames, subscription: string): Promise<unknown> | undefined;
  /** Resolves when the reader can take more, is gone, or no longer wants the data. */
  drained(isWanted: () => boolean): Promise<void>;
  /** Wakes callers of `drained`, which check again whether their data is still wanted. */
  wake(): void;
  /** Bytes sent to it that it has not received yet. */
  readonly unsentBytes: number;
  /** Bytes received from it that are not processed: queued messages, and an incomplete one. */
  readonly unreadBytes: number;
  /** Pings a silent connection, closes one that does not answer, and closes abandoned syncs. */
  checkIdle(nowMs: number): void;
  close(): void;
  terminate(): void;
}

const zeroCounts = () => Object.fromEntries(countNames.map((name) => [name, 0])) as Counts;

/** Options of a relay, apart from where it listens. */
export interface CoreOptions {
  /** Maximum size of an event; default 2 MiB. */
  readonly maxEventBytes?: number;
  /** Limits that differ from the defaults. */
  readonly limits?: Partial<Limits>;
  /** Imitates another relay: its limits, messages and NIP-11 document. `limits` still apply. */
  readonly strict?: ProfileName;
  /** Who must authenticate (NIP-42); default `none`. */
  readonly auth?: AuthMode;
  /** Leading zero bits required of an id (NIP-13); default 0. */
  readonly minPow?: number;
  /**
   * Public URL of this relay (by name, or behind a proxy). AUTH (NIP-42) and requests to vanish (NIP-62) must name its
   * host. Without it they must name an address of this relay; the `Host` header of clients is not trusted. With it,
   * `X-Forwarded-For` from a loopback or private address is trusted.
   */
  readonly publicUrl?: string;
  readonly name?: string;
  readonly faults?: FaultSettings;
  /** Seed of the faults; default 0. */
  readonly seed?: number;
  /** Replaces the standard policies. */
  readonly policies?: readonly Policy[];
  /** Returns milliseconds since the epoch; default `Date.now`. */
  readonly nowMs?: () => number;
  /** Timers of the faults; default those of the machine. */
  readonly setTimer?: SetTimer;
}

const profileOf = ({ strict }: CoreOptions): Profile =>
  strict === undefined ? ours : profiles[strict];

/** Returns the limits of the profile, overridden by those in the options. */
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

/** Creates the state of a relay without connections. */
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
    policies: [...(options.policies ?? createStandardPolicies(limits)), secret(options.faults)],
    faults: options.faults ?? {},
    seed: options.seed ?? 0,
    store,
    log,
    sessions: new Set(),
    live: new LiveIndex(),
    subscribed: { bytes: 0 },
    turns: new Turns(),
    counts: zeroCounts(),
    setTimer: options.setTimer ?? setMachineTimer,
    nowMs: options.nowMs ?? Date.now,
  };
}

const setMachineTimer: SetTimer = (call, ms) => {
  const timer = setTimeout(call, ms).unref();
  return () => clearTimeout(timer);
};

/** Proof of work that the NIP-11 document does not mention. */
const secret =
  (faults: FaultSettings = {}): Policy =>
  (event) =>
    proofOfWork(event, { limits: { minPow: faults.work ?? 0 } });
