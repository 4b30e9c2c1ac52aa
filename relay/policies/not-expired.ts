/** Refuses an event that has already expired (NIP-40). */
import { expirationOf } from '../event.ts';
import type { Policy } from './policy.ts';

export const notExpired: Policy = (event, session) =>
  (expirationOf(event) ?? Number.POSITIVE_INFINITY) <= session.nowSeconds()
    ? { prefix: 'invalid', code: 'expired', message: 'event is expired' }
    : undefined;
