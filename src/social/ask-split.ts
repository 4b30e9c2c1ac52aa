/** Asks relays for what a zap split needs besides the run: the profiles of contributors. */
import type { RelaySet } from '../network/transport/relay-set.ts';
import { closingShares, type Shown } from './announce.ts';
import { profilesFilter, type Split, splitZaps } from './zaps.ts';

/** Milliseconds to wait for profiles. */
const WAIT_MS = 8000;

/** Returns who shares a zap, and who has no Lightning address; both are empty before the run is over. */
export async function splitOf(shown: Shown, relays: RelaySet, signal: AbortSignal): Promise<Split> {
  const shares = closingShares(shown);
  if (shares.length === 0) return { shares, leftOut: [] };
  const { events } = await relays.query([profilesFilter(shares)], { waitMs: WAIT_MS, signal });
  return splitZaps(shares, events);
}
