/** What this relay accepts, in one place: policies enforce these numbers and the NIP-11 document reports them. */

export interface Limits {
  /** Largest event, as JSON with only the seven fields of NIP-01, in bytes. */
  readonly maxEventBytes: number;
  readonly maxTags: number;
  readonly maxTagValueBytes: number;
  readonly maxSubscriptions: number;
  readonly maxSubscriptionIdLength: number;
  readonly maxFilters: number;
  /** Most values in one list of a filter. */
  readonly maxFilterValues: number;
  /** Most stored events one REQ brings; also used when a filter names no limit. */
  readonly maxLimit: number;
  /** Oldest `created_at` accepted, in seconds before now; undefined accepts any age. */
  readonly createdAtPastSeconds: number | undefined;
  /** Newest `created_at` accepted, in seconds after now; undefined accepts any future. */
  readonly createdAtFutureSeconds: number | undefined;
  /** The only kinds accepted; undefined accepts all. */
  readonly kinds: readonly number[] | undefined;
  readonly maxStoredEvents: number;
  readonly maxStoredBytes: number;
  /** A reader that lets this many bytes pile up is disconnected. */
  readonly maxUnsentBytes: number;
}

const MIB = 1 << 20;

export const defaultLimits: Limits = {
  maxEventBytes: 2 * MIB,
  maxTags: 2000,
  maxTagValueBytes: 8192,
  maxSubscriptions: 32,
  maxSubscriptionIdLength: 64,
  maxFilters: 32,
  maxFilterValues: 1000,
  maxLimit: 5000,
  createdAtPastSeconds: undefined,
  createdAtFutureSeconds: 900,
  kinds: undefined,
  maxStoredEvents: 100_000,
  maxStoredBytes: 1024 * MIB,
  maxUnsentBytes: 256 * MIB,
};

/** The longest message answered with OK true: an event of full size and its `["EVENT",…]` brackets. */
export const maxMessageBytes = (limits: Limits): number => limits.maxEventBytes + 64;

/** The longest frame read at all; the room above `maxMessageBytes` lets an oversize event get its OK false. */
export const maxFrameBytes = (limits: Limits): number => maxMessageBytes(limits) + MIB;
