/** The beacon values that a run's history needs, one after the other: each decides who could decide what comes next. */
import type { Digest } from '../run/ids.ts';
import type { Gathered } from './gather.ts';
import type { Chain } from './history.ts';
import { beaconLack, type ReplayedRound, replay, withoutModel } from './replay.ts';

/**
 * Follows the run without its model and puts each value that it needs into the table that the events were gathered with, until nobody has
 * the next one.
 */
export async function completeBeacons(
  start: Chain,
  events: Gathered,
  beacons: Map<number, Digest>,
  valueAfter: (time: number) => Promise<Digest | undefined>,
): Promise<void> {
  for (let chain = start; ; ) {
    const playing = replay(withoutModel(chain), events);
    let last: ReplayedRound | undefined;
    let next = playing.next();
    for (; !next.done; next = playing.next()) last = next.value;
    const time = last && beaconLack(last);
    const value = time === undefined ? undefined : await valueAfter(time);
    if (time === undefined || value === undefined) return;
    beacons.set(time, value);
    chain = next.value.state;
  }
}
