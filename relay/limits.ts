/** What this relay accepts, in one place: policies enforce these numbers and the NIP-11 document reports them. */
import type { AddressRate, Rate } from './rates.ts';

/** What one public address (IPv4) or network (IPv6 /64) may do; loopback and private networks are not counted. */
export interface PublicAddressLimits {
  /** Connections open at a time. */
  readonly connections: number;
  readonly newConnections: AddressRate;
  readonly messages: AddressRate;
  readonly events: AddressRate;
  /** Bytes sent to us. */
  readonly bytes: AddressRate;
}

export interface Limits {
  /** Largest event, as JSON with only the seven fields of NIP-01, in bytes. */
  readonly maxEventBytes: number;
  /** Longest content, in characters; undefined leaves it to `maxEventBytes`. */
  readonly maxContentLength: number | undefined;
  /** Longest frame read before the connection is closed; undefined also allows an answer to an oversize event. */
  readonly frameBytes: number | undefined;
  /** A longer message is answered with a NOTICE and nothing else; undefined never does that. */
  readonly noticeAboveBytes: number | undefined;
  readonly maxTags: number;
  readonly maxTagValueBytes: number;
  /** A longer tag value is kept but cannot be found by a filter. */
  readonly maxIndexedTagBytes: number;
  readonly maxSubscriptions: number;
  readonly maxSubscriptionIdLength: number;
  /** Most bytes of the messages that opened the subscriptions of one connection, and some for each filter, together. */
  readonly maxSubscriptionBytes: number;
  /** Of all connections, together; one public address gets an eighth. */
  readonly maxSubscriptionBytesInAll: number;
  readonly maxFilters: number;
  /** Most values in one list of a filter. */
  readonly maxFilterValues: number;
  /** Most `#x` conditions in one filter. */
  readonly maxTagFilters: number;
  /** Most stored events one REQ brings; also used when a filter names no limit. */
  readonly maxLimit: number;
  /** Oldest `created_at` accepted, in seconds before now; undefined accepts any age. */
  readonly createdAtMaxAgeSeconds: number | undefined;
  /** Newest `created_at` accepted, in seconds after now; undefined accepts any future. */
  readonly createdAtFutureSeconds: number | undefined;
  /** Oldest ephemeral event accepted, in seconds before now; undefined accepts any age. */
  readonly ephemeralMaxAgeSeconds: number | undefined;
  /** How long an ephemeral event can still be queried; 0 never keeps one. */
  readonly ephemeralKeepSeconds: number;
  /** Leading zero bits an id must have (NIP-13). */
  readonly minPow: number;
  /** Events of one author over time. */
  readonly eventRates: readonly Rate[];
  /** Events of one address: so many at once, then so many a minute; undefined takes any rate. */
  readonly addressRate: AddressRate | undefined;
  /** Connections from one address over time. */
  readonly connectionRates: readonly Rate[];
  /** Messages of one address over time. */
  readonly messageRates: readonly Rate[];
  /** What each public address may do besides; undefined counts none of it. */
  readonly publicAddress: PublicAddressLimits | undefined;
  /** Connections open at a time, of all addresses; half as many of one loopback or private address. */
  readonly maxConnections: number;
  /** A connection that is silent for so long is asked for a sign of life, and after twice as long is closed. */
  readonly idleSeconds: number;
  /** Longest message that is no EVENT, in bytes. */
  readonly maxQueryBytes: number;
  /** Most events one REQ or COUNT may look at, and lists of a sync may hold together. */
  readonly maxScanned: number;
  /** The only kinds accepted; undefined accepts all. */
  readonly kinds: readonly number[] | undefined;
  readonly maxStoredEvents: number;
  /** JSON of all events kept; the log on disk takes about twice that at most. */
  readonly maxStoredBytes: number;
  /** What the events kept take in memory besides their JSON: tags, and the keys they are found by. */
  readonly maxIndexBytes: number;
  /** A reader that lets this many bytes pile up is disconnected. */
  readonly maxUnsentBytes: number;
  /** Of all readers together; then whoever lets most pile up is disconnected. */
  readonly maxUnsentBytesInAll: number;
  /** Bytes of messages that have not arrived whole, or wait for their turn, of all connections together. */
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

/** The longest message answered with OK true: an event of full size and its `["EVENT",…]` brackets. */
export const maxMessageBytes = (limits: Limits): number => limits.maxEventBytes + 64;

/** The longest frame read at all; the margin above `maxMessageBytes` lets an oversize event get its OK false. */
export const maxFrameBytes = (limits: Limits): number =>
  limits.frameBytes ?? maxMessageBytes(limits) + MIB;
