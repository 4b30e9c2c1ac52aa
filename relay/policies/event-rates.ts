/** Refuses an author who publishes too fast. Holds its own counts: make one per relay, and ask it last. */
import { Meter, type Rate } from '../rates.ts';
import type { Policy } from './policy.ts';

export function createEventRates(rates: readonly Rate[]): Policy {
  const meter = new Meter(rates);
  return ({ pubkey, kind }, session) =>
    meter.takes(pubkey, session.nowSeconds() * 1000, kind)
      ? undefined
      : { prefix: 'rate-limited', code: 'too-fast', message: 'slow down' };
}
