/** All limits of this relay: policies enforce these numbers, and the NIP-11 document reports them. */
import type { AddressRate, Rate } from './rates.ts';

/** Limits of one public address (IPv4) or network (IPv6 /64); loopback and private networks are exempt. */
export interface PublicAddressLimits {
  /** Maximum open connections. */
  readonly connections: number;
  readonly newConnections: AddressRate;
  readonly messages: AddressRate;
  readonly events: AddressRate;
  /** Bytes received. */
  readonly bytes: AddressRate;
}

export interface Limits {
  /** Maximum event size in bytes, as JSON with only the seven fields of NIP-01. */
  readonly maxEventBytes: number;
  /** Maximum content length in characters; undefined applies only `maxEventBytes`. */
  readonly maxContentLength: number | undefined;
  /** Longest frame read before the connection is closed; undefined is 1 MiB more than `maxMessageBytes`. */
  readonly frameBytes: number | undefined;
  /** Longer messages are answered with a NOTICE only; undefined disables that. */
  readonly noticeAboveBytes: number | undefined;
  readonly maxTags: number;
  readonly maxTagValueBytes: number;
  /** Longer tag values are stored but not indexed. */
  readonly maxIndexedTagBytes: number;
  readonly maxSubscriptions: number;
  readonly maxSubscriptionIdLength: number;
  /** Maximum bytes of the open subscriptions of one connection: the opening messages, plus a constant per filter. */
  readonly maxSubscriptionBytes: number;
  /** The same of all connections together; one public address may use an eighth. */
  readonly maxSubscriptionBytesInAll: number;
  readonly maxFilters: number;
  /** Maximum values in one list of a filter. */
  readonly maxFilterValues: number;
  /** Maximum `#x` conditions in one filter. */
  readonly maxTagFilters: number;
  /** Maximum stored events per REQ; also the limit of a filter without one. */
  readonly maxLimit: number;
  /** Maximum age of `created_at`, in seconds; undefined accepts any age. */
  readonly createdAtMaxAgeSeconds: number | undefined;
  /** Maximum `created_at` after now, in seconds; undefined accepts any future. */
  readonly createdAtFutureSeconds: number | undefined;
  /** Maximum age of an ephemeral event, in seconds; undefined accepts any age. */
  readonly ephemeralMaxAgeSeconds: number | undefined;
  /** How long ephemeral events can be queried, in seconds; 0 never stores one. */
  readonly ephemeralKeepSeconds: number;
  /** Leading zero bits required of an id (NIP-13). */
  readonly minPow: number;
  /** Rate limits of one author's events. */
  readonly eventRates: readonly Rate[];
  /** Rate limit of one address's events (burst, then per minute); undefined accepts any rate. */
  readonly addressRate: AddressRate | undefined;
  /** Rate limits of connections from one address. */
  readonly connectionRates: readonly Rate[];
  /** Rate limits of messages from one address. */
  readonly messageRates: readonly Rate[];
  /** Additional limits of each public address; undefined has none. */
  readonly publicAddress: PublicAddressLimits | undefined;
  /** Maximum open connections in total; a loopback or private address may have half as many. */
  readonly maxConnections: number;
  /** A connection silent for this long is pinged, and closed after twice this time, in seconds. */
  readonly idleSeconds: number;
  /** Maximum size of messages other than EVENT, in bytes. */
  readonly maxQueryBytes: number;
  /** Maximum events that one REQ or COUNT may scan, and that open syncs may hold together. */
  readonly maxScanned: number;
  /** The only accepted kinds; undefined accepts all. */
  readonly kinds: readonly number[] | undefined;
  readonly maxStoredEvents: number;
  /** Maximum bytes of JSON of all stored events; the log on disk takes at most about twice that. */
  readonly maxStoredBytes: number;
  /** Maximum memory of stored events besides their JSON, in bytes: tags and index keys. */
  readonly maxIndexBytes: number;
  /** Maximum unsent bytes of a connection before it is disconnected. */
  readonly maxUnsentBytes: number;
  /** Maximum unsent bytes of all connections; beyond, the one with the most is disconnected. */
  readonly maxUnsentBytesInAll: number;
  /** Maximum bytes of incomplete and queued messages of all connections. */
  readonly maxUnreadBytesInAll: number;
}

const MIB = 1 << 20;

/** Limits of a relay whose options set none. */
export const defaultLimits: Limits = {
  maxEventBytes: 2 * MIB,
  maxContentLength: undefined,
  frameBytes: undefined,
  noticeAboveBytes: undefined,
  maxTags: 2000,
  maxTagValueBytes: 8192,
  maxIndexedTagBytes: 8192,
  maxSubscriptions: 32,
  maxSubscriptionIdLength: 64,
  maxSubscriptionBytes: 4 * MIB,
  maxSubscriptionBytesInAll: 64 * MIB,
  maxFilters: 32,
  maxFilterValues: 1000,
  maxTagFilters: 32,
  maxLimit: 5000,
  createdAtMaxAgeSeconds: undefined,
  createdAtFutureSeconds: 900,
  ephemeralMaxAgeSeconds: undefined,
  ephemeralKeepSeconds: 0,
  minPow: 0,
  eventRates: [],
  addressRate: undefined,
  connectionRates: [],
  messageRates: [],
  publicAddress: {
    connections: 64,
    newConnections: { atOnce: 64, perMinute: 60 },
    messages: { atOnce: 10_000, perMinute: 6000 },
    events: { atOnce: 5000, perMinute: 3000 },
    bytes: { atOnce: 512 * MIB, perMinute: 512 * MIB },
  },
  maxConnections: 1000,
  idleSeconds: 60,
  maxQueryBytes: MIB,
  maxScanned: 1_000_000,
  kinds: undefined,
  maxStoredEvents: 100_000,
  maxStoredBytes: 1024 * MIB,
  maxIndexBytes: 224 * MIB,
  maxUnsentBytes: 256 * MIB,
  maxUnsentBytesInAll: 512 * MIB,
  maxUnreadBytesInAll: 256 * MIB,
};

/** Returns the size of the longest accepted EVENT message: an event of maximum size in its `["EVENT",…]` brackets. */
export const maxMessageBytes = (limits: Limits): number => limits.maxEventBytes + 64;

/**
 * Returns the longest frame that is read; the margin above `maxMessageBytes` lets an oversize event get its OK false.
 */
export const maxFrameBytes = (limits: Limits): number =>
  limits.frameBytes ?? maxMessageBytes(limits) + MIB;
