/** Refuses an address that publishes too fast, whoever signs: a bucket of tokens each. Holds its own counts, so ask it last. */
import type { AddressRate } from '../rates.ts';
import type { Policy } from './policy.ts';

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Addresses remembered at most; beyond it the one longest unused is forgotten. */
const MAX_ADDRESSES = 10_000;
const MINUTE_MS = 60_000;

export function createAddressRate({ atOnce, perMinute }: AddressRate): Policy {
  const buckets = new Map<string, Bucket>();

  /** What the address has now. */
  function bucketOf(address: string, nowMs: number): Bucket {
    const held = buckets.get(address);
    if (!held) return { tokens: atOnce, atMs: nowMs };
    const gained = ((nowMs - held.atMs) * perMinute) / MINUTE_MS;
    // waits are whole milliseconds: what rounding leaves missing must not refuse anybody
    return { tokens: Math.min(atOnce, held.tokens + gained + 1e-9), atMs: nowMs };
  }

  return (_, session) => {
    const { address } = session;
    const { tokens, atMs } = bucketOf(address, session.nowMs());
    if (tokens < 1) return { prefix: 'rate-limited', code: 'too-fast', message: 'slow down' };
    buckets.delete(address);
    buckets.set(address, { tokens: tokens - 1, atMs });
    const oldest = buckets.keys().next().value;
    if (buckets.size > MAX_ADDRESSES && oldest !== undefined) buckets.delete(oldest);
    return undefined;
  };
}
