/** Like strfry as it is configured out of the box (`strfry.conf`): small events, NOTICE for a bad REQ, ephemeral events kept a while. */
import type { Profile } from './profile.ts';

const FRAME_BYTES = 131_072;
const MAX_LIMIT = 500;

export const strfry: Profile = {
  limits: {
    maxEventBytes: 65_536,
    frameBytes: FRAME_BYTES,
    maxTags: 2000,
    maxTagValueBytes: 1024,
    maxIndexedTagBytes: 255,
    maxSubscriptions: 200,
    maxSubscriptionIdLength: 71,
    maxFilters: 20,
    maxTagFilters: 3,
    maxLimit: MAX_LIMIT,
    createdAtPastSeconds: 94_608_000,
    createdAtFutureSeconds: 900,
    ephemeralPastSeconds: 60,
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
      max_message_length: FRAME_BYTES,
      max_subscriptions: limits.maxSubscriptions,
      max_limit: MAX_LIMIT,
    },
  }),
};
