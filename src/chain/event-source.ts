/** A stake source without a chain: a snapshot document from an event. Only its id is verified. */
import { ChainError } from '../base/errors.ts';
import type { Result } from '../base/result.ts';
import type { Digest } from '../run/ids.ts';
import type { StakeSnapshot } from '../run/stake/stake-snapshot.ts';
import type { StakeSource } from '../run/stake/stake-source.ts';

/** Looks for a snapshot among the events of relays; whoever has relays brings this. */
export type FindSnapshot = (id: Digest, signal: AbortSignal) => Promise<Result<StakeSnapshot>>;

/** The snapshot of an id from whatever events carry it. */
export const createEventSource = (id: Digest, find: FindSnapshot): StakeSource => ({
  name: `event of snapshot ${id}`,
  async snapshot(epoch, signal) {
    if (epoch !== 0) {
      const message = `event of snapshot ${id} has no epoch ${epoch}: only a chain goes on`;
      throw new ChainError('chain/epoch', message);
    }
    const found = await find(id, signal);
    if (found.ok) return found.value;
    throw new ChainError(
      'chain/no-event',
      `no event carries snapshot ${id}: ${found.issue.message}`,
      { hint: 'ask other relays, or whoever made the run for the file' },
    );
  },
});
