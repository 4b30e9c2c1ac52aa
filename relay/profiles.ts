/** Dialects of this relay, strfry, nostream and nostr-rs-relay: limits, wording and NIP-11 document. */
import { type Limits, maxMessageBytes } from './limits.ts';
import type { RefusalCode } from './policies.ts';

export interface Dialect {
  /** How a refused REQ is answered; a NOTICE starts with `noticeWords`. */
  readonly refusedReq: 'CLOSED' | 'NOTICE';
  readonly noticeWords: string;
  /** Whether an unknown filter field refuses the REQ. If ignored, an unknown `#name` matches nothing. */
  readonly unknownFields: 'refuse' | 'ignore';
  /** Whether EOSE states if there are more events (NIP-67). */
  readonly hints: boolean;
  /** Whether COUNT is supported (NIP-45). */
  readonly counts: boolean;
  /** Whether NEG-OPEN is supported (NIP-77). */
  readonly syncs: boolean;
  /** Returns the message that refuses a REQ beyond `maxSubscriptions`. */
  readonly tooManySubscriptions: (id: string, most: number) => readonly string[];
  /** Complete messages of refusals that differ from ours. */
  readonly words: Partial<Record<RefusalCode, string>>;
}

export interface Profile {
  readonly limits: Partial<Limits>;
  readonly dialect: Dialect;
  /** Returns the NIP-11 document without the name. */
  document(limits: Limits): Readonly<Record<string, unknown>>;
}

/** Bytes of an ordinary event besides its content: ids, signature and some tags. */
const ENVELOPE_BYTES = 1024;

export const ours: Profile = {
  limits: {},
  dialect: {
    refusedReq: 'CLOSED',
    noticeWords: '',
    unknownFields: 'refuse',
    hints: true,
    counts: true,
    syncs: true,
    tooManySubscriptions: (id, most) => [
      'CLOSED',
      id,
      `error: too many open subscriptions, the limit is ${most}`,
    ],
    words: {},
  },
  document: (limits) => ({
    description: 'A small relay for demos and tests.',
    software: 'nostrain-relay',
    supported_nips: [1, 9, 11, 13, 40, 42, 45, 62, 67, 70, 77],
    limitation: {
      max_message_length: maxMessageBytes(limits),
      max_content_length:
        limits.maxContentLength ?? Math.max(0, limits.maxEventBytes - ENVELOPE_BYTES),
      max_subscriptions: limits.maxSubscriptions,
      max_subid_length: limits.maxSubscriptionIdLength,
      max_filters: limits.maxFilters,
      max_limit: limits.maxLimit,
      default_limit: limits.maxLimit,
      max_event_tags: limits.maxTags,
      min_pow_difficulty: limits.minPow,
      payment_required: false,
      restricted_writes: limits.kinds !== undefined,
      created_at_lower_limit: limits.createdAtMaxAgeSeconds,
      created_at_upper_limit: limits.createdAtFutureSeconds,
    },
  }),
};

const STRFRY_FRAME_BYTES = 131_072;
const MAX_LIMIT = 500;

const strfry: Profile = {
  limits: {
    maxEventBytes: 65_536,
    frameBytes: STRFRY_FRAME_BYTES,
    maxTags: 2000,
    maxTagValueBytes: 1024,
    maxIndexedTagBytes: 255,
    maxSubscriptions: 200,
    maxSubscriptionIdLength: 71,
    maxFilters: 20,
    maxTagFilters: 3,
    maxLimit: MAX_LIMIT,
    createdAtMaxAgeSeconds: 94_608_000,
    createdAtFutureSeconds: 900,
    ephemeralMaxAgeSeconds: 60,
    ephemeralKeepSeconds: 300,
    maxUnsentBytes: 33_554_432,
  },
  dialect: {
    refusedReq: 'NOTICE',
    noticeWords: 'ERROR: bad req: ',
    unknownFields: 'refuse',
    hints: false,
    counts: false,
    syncs: true,
    tooManySubscriptions: () => ['NOTICE', 'ERROR: too many concurrent REQs'],
    words: {
      'too-late': 'invalid: created_at too late',
      'too-early': 'invalid: created_at too early',
      'too-early-ephemeral': 'invalid: ephemeral event expired',
      expired: 'invalid: event expired',
      'wrong-id': 'invalid: bad event id',
      'wrong-signature': 'invalid: bad signature',
      protected: 'blocked: event marked as protected',
      duplicate: 'duplicate: have this event',
    },
  },
  document: (limits) => ({
    description: 'This is a strfry instance.',
    software: 'git+https://github.com/hoytech/strfry.git',
    version: '1.1.1',
    supported_nips: [1, 2, 4, 9, 11, 22, 28, 40, 70, 77],
    negentropy: 1,
    limitation: {
      max_message_length: STRFRY_FRAME_BYTES,
      max_subscriptions: limits.maxSubscriptions,
      max_limit: MAX_LIMIT,
    },
  }),
};

const NOSTREAM_FRAME_BYTES = 524_288;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

const nostream: Profile = {
  limits: {
    maxEventBytes: NOSTREAM_FRAME_BYTES,
    frameBytes: NOSTREAM_FRAME_BYTES,
    maxContentLength: 102_400,
    maxTags: 2500,
    maxSubscriptions: 10,
    maxSubscriptionIdLength: 256,
    maxFilters: 10,
    maxFilterValues: 2500,
    maxLimit: 5000,
    createdAtFutureSeconds: 900,
    eventRates: [
      {
        count: 6,
        periodMs: MINUTE_MS,
        kinds: [
          [0, 0],
          [3, 3],
          [40, 41],
        ],
      },
      {
        count: 12,
        periodMs: MINUTE_MS,
        kinds: [
          [1, 2],
          [4, 4],
          [42, 42],
        ],
      },
      {
        count: 30,
        periodMs: MINUTE_MS,
        kinds: [
          [5, 7],
          [43, 49],
        ],
      },
      {
        count: 24,
        periodMs: MINUTE_MS,
        kinds: [
          [10_000, 19_999],
          [30_000, 39_999],
        ],
      },
      { count: 60, periodMs: MINUTE_MS, kinds: [[20_000, 29_999]] },
      { count: 720, periodMs: HOUR_MS },
    ],
    connectionRates: [
      { count: 12, periodMs: 1000 },
      { count: 48, periodMs: MINUTE_MS },
    ],
    messageRates: [{ count: 240, periodMs: MINUTE_MS }],
  },
  dialect: {
    refusedReq: 'NOTICE',
    noticeWords: 'Subscription rejected: ',
    unknownFields: 'refuse',
    hints: false,
    counts: true,
    syncs: false,
    tooManySubscriptions: (_, most) => [
      'NOTICE',
      'Subscription rejected: Too many subscriptions: ' +
        `Number of subscriptions must be less than or equal to ${most}`,
    ],
    words: {
      'too-long': 'rejected: content is longer than 102400 bytes',
      'too-late': 'rejected: created_at is more than 900 seconds in the future',
      expired: 'event is expired',
      'wrong-id': 'invalid: event id does not match',
      'wrong-signature': 'invalid: event signature verification failed',
      'too-fast': 'rate-limited: slow down',
      duplicate: 'duplicate:',
    },
  },
  document: (limits) => ({
    description: 'A nostr relay written in Typescript.',
    software: 'git+https://github.com/cameri/nostream.git',
    supported_nips: [1, 2, 4, 9, 11, 12, 13, 15, 16, 20, 22, 28, 33, 40, 45],
    limitation: {
      max_message_length: NOSTREAM_FRAME_BYTES,
      max_subscriptions: limits.maxSubscriptions,
      max_filters: limits.maxFilters,
      max_limit: limits.maxLimit,
      max_subid_length: limits.maxSubscriptionIdLength,
      max_event_tags: limits.maxTags,
      max_content_length: limits.maxContentLength,
      min_pow_difficulty: limits.minPow,
      auth_required: false,
      payment_required: false,
      created_at_upper_limit: limits.createdAtFutureSeconds,
    },
  }),
};

const MESSAGE_BYTES = 131_072;

const nostrRsRelay: Profile = {
  limits: {
    maxEventBytes: MESSAGE_BYTES,
    noticeAboveBytes: MESSAGE_BYTES,
    frameBytes: 8 * MESSAGE_BYTES,
    maxSubscriptions: 32,
    maxSubscriptionIdLength: 256,
    createdAtFutureSeconds: 1800,
  },
  dialect: {
    refusedReq: 'NOTICE',
    noticeWords: 'Subscription error: ',
    unknownFields: 'ignore',
    hints: false,
    counts: false,
    syncs: false,
    tooManySubscriptions: () => [
      'NOTICE',
      'Subscription error: Maximum concurrent subscription count reached',
    ],
    words: {
      'too-late':
        'invalid: The event created_at field is out of the acceptable range ' +
        '(+1800sec) for this relay.',
      'wrong-id': 'invalid: event was invalid',
      'wrong-signature': 'invalid: event was invalid',
    },
  },
  document: () => ({
    description: 'A newly created nostr-rs-relay.',
    software: 'https://git.sr.ht/~gheartsfield/nostr-rs-relay',
    version: '0.9.0',
    supported_nips: [1, 2, 9, 11, 12, 15, 16, 20, 22, 33, 40],
    limitation: { payment_required: false, restricted_writes: false },
  }),
};

export const profiles = {
  strfry,
  'nostr-rs-relay': nostrRsRelay,
  nostream,
} satisfies Record<string, Profile>;

export type ProfileName = keyof typeof profiles;
