/** This relay as itself: nothing restricted beyond the default limits, every limit told. */
import { maxMessageBytes } from '../limits.ts';
import type { Profile } from './profile.ts';

/** What an ordinary event needs besides its content: ids, signature and some tags. */
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
      created_at_lower_limit: limits.createdAtPastSeconds,
      created_at_upper_limit: limits.createdAtFutureSeconds,
    },
  }),
};
