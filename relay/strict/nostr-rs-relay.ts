/** Like nostr-rs-relay as it is configured out of the box (`config.toml`): too long a message gets a NOTICE and never an OK. */
import type { Profile } from './profile.ts';

const MESSAGE_BYTES = 131_072;

export const nostrRsRelay: Profile = {
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
        'invalid: The event created_at field is out of the acceptable range (+1800sec) for this relay.',
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
