/** From options to all that the connections of one relay share: limits, policies, the store. Opens nothing. */
import { type Core, zeroCounts } from './core.ts';
import type { EventLog } from './durable/event-log.ts';
import type { FaultSettings } from './faults/fault.ts';
import { defaultLimits, type Limits } from './limits.ts';
import { LiveIndex } from './live-index.ts';
import type { AuthMode, Policy } from './policies/policy.ts';
import { proofOfWork } from './policies/proof-of-work.ts';
import { createStandardPolicies } from './policies/standard.ts';
import { Buckets, Meter } from './rates.ts';
import type { Store } from './store.ts';
import { ours } from './strict/ours.ts';
import type { Profile } from './strict/profile.ts';
import { type ProfileName, profiles } from './strict/profiles.ts';
import { Turns } from './turns.ts';

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
