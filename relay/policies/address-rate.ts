/** Refuses an address that publishes too fast, whoever signs: a bucket of tokens each. Holds its own counts, so ask it last. */
import { type AddressRate, Buckets } from '../rates.ts';
import type { Policy } from './policy.ts';

/** With `isPublic` it counts public addresses only: behind a near one there are many, and they are known. */
export function createAddressRate(rate: AddressRate, isPublic = false): Policy {
  const buckets = new Buckets(rate);
  return (_, session) =>
    (isPublic && session.isNear) || buckets.takes(session.address, session.nowMs())
      ? undefined
      : { prefix: 'rate-limited', code: 'too-fast', message: 'slow down' };
}
