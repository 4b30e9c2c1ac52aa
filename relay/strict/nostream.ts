/** Like nostream as it is configured out of the box (`default-settings.yaml`): content counted in characters, everything rated. */
import type { Profile } from './profile.ts';

const FRAME_BYTES = 524_288;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

export const nostream: Profile = {
  limits: {
    maxEventBytes: FRAME_BYTES,
    frameBytes: FRAME_BYTES,
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
      `Subscription rejected: Too many subscriptions: Number of subscriptions must be less than or equal to ${most}`,
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
      max_message_length: FRAME_BYTES,
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
