/** Sends what an event names before the event itself: the chunks, then the event as soon as the relays together hold them. */

import { type ChunkDelivery, type ChunkSenderOptions, sendChunks } from '../attachments/publish.ts';
import type { SignedEvent } from '../event.ts';
import type { Delivery, Sending } from '../transport/delivery.ts';
import { anyTrue, deliveryOf, isTaken, wordsOf } from '../transport/delivery.ts';
import type { PublishOutcome } from '../transport/publishing.ts';
import type { RelaySet } from '../transport/relay-set.ts';

/** Starts sending `parts`, of which any `need` are enough. The event is not sent when no relays hold so many. */
export function sendAfterChunks(
  event: SignedEvent,
  parts: readonly Uint8Array[],
  need: number,
  options: ChunkSenderOptions,
): Sending {
  const { relays, signal } = options;
  const { enough, deliveries, moved } = sendChunks(parts, need, options);
  const outcomes = enough.then((isThere) => (isThere ? relays.send(event, { signal }) : []));
  return {
    taken: outcomes.then((each) => anyTrue(each.map(async (one) => isTaken(await one)))),
    settled: settle(relays, deliveries, outcomes),
    progress: moved,
  };
}

/** One relay took everything it was given, or said why not. */
async function settle(
  relays: RelaySet,
  deliveries: readonly Promise<ChunkDelivery>[],
  outcomes: Promise<readonly Promise<PublishOutcome>[]>,
): Promise<Delivery> {
  const events = await outcomes;
  const answers = await Promise.all(
    relays.relays.map(async (relay, i) => {
      const { taken, of, message } = await deliveries[i]!;
      const outcome = await events[i]?.catch(() => undefined);
      const isHere = taken === of && outcome !== undefined && isTaken(outcome);
      const chunks = `${taken} of ${of} chunks taken: ${message}`;
      return { relay, isHere, message: taken < of ? chunks : wordsOf(outcome, relay, relays) };
    }),
  );
  return deliveryOf(answers);
}
