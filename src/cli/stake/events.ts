/** Snapshot events over relays, for the stake commands: found by id, published under a key made for it. */

import { createBell, ringOrDeadline } from '../../base/bell.ts';
import { systemClock } from '../../base/clock.ts';
import { RelayError } from '../../base/errors.ts';
import type { FindEvents } from '../../chain/fixed-sources.ts';
import { createSigner, type SignedEvent } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { buildSnapshot } from '../../network/wire/snapshots.ts';
import { connectRelays } from '../../node/connect-relays.ts';
import { createSecretKey } from '../../node/keys.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import type { StakeSnapshot } from '../../run/stake-snapshot.ts';

const OPEN_MS = 10_000;
const FIND_MS = 15_000;
const KEPT_SECONDS = 90 * 86_400;

const aSigner = () => createSigner(createSecretKey(), nativeCrypto);

/** Everything the relays have stored that matches, once all of them have said it or the time is over. */
export const findOver =
  (urls: readonly string[]): FindEvents =>
  (filter, signal) =>
    withRelays(urls, signal, async (relays) => {
      const bell = createBell();
      const found: SignedEvent[] = [];
      const onEvent = (event: SignedEvent) => void found.push(event);
      const subscription = relays.subscribe([filter], {
        onEvent,
        onCaughtUp: bell.ring,
        onLost: bell.ring,
      });
      const deadline = systemClock.now() + FIND_MS;
      while (!subscription.caughtUp && systemClock.now() < deadline) {
        await ringOrDeadline(bell, systemClock, deadline, signal);
      }
      subscription.close();
      return found;
    });

/** A snapshot as an event. What it is does not depend on who signs it, so nobody's key is used. */
export function toEvent(snapshot: StakeSnapshot): SignedEvent {
  const createdAt = Math.floor(systemClock.now() / 1000);
  return aSigner().sign(
    buildSnapshot(snapshot, { createdAt, expiresAt: createdAt + KEPT_SECONDS }),
  );
}

/** Sends a snapshot; throws when no relay takes it. */
export const publishOver = (
  urls: readonly string[],
  snapshot: StakeSnapshot,
  signal: AbortSignal,
): Promise<void> =>
  withRelays(urls, signal, async (relays) => {
    const outcomes = await relays.publish(toEvent(snapshot), { signal });
    if (outcomes.some(({ status }) => status === 'accepted')) return;
    const words = outcomes.map((outcome) => `${outcome.relay}: ${outcome.status}`).join('; ');
    throw new RelayError('relay/refused', `no relay took the snapshot: ${words}`);
  });

async function withRelays<T>(
  urls: readonly string[],
  signal: AbortSignal,
  work: (relays: RelaySet) => Promise<T>,
): Promise<T> {
  const connection = {
    openTimeoutMs: OPEN_MS,
    retry: { maxAttempts: 2, initialMs: 250, maxMs: 2000, multiplier: 2, jitter: 'full' },
  } as const;
  const relays = await connectRelays(urls, connection, aSigner(), signal);
  try {
    return await work(relays);
  } finally {
    await relays.close();
  }
}
