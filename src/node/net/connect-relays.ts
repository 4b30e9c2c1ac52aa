/** Relays as a run needs them: reachable before anything is trained. */
import { systemClock } from '../../base/clock.ts';
import type { RetryPolicy } from '../../base/retry.ts';
import type { Signer } from '../../network/event.ts';
import { createRelaySet, type RelaySet } from '../../network/transport/relay-set.ts';
import { relaysOfKey } from '../../network/transport/spread.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { fetchRelayInfo } from './relay-info.ts';
import { openPublicSocket, openSocket } from './sockets.ts';

/** How to deal with relays. */
export interface Connection {
  /** For each connection. */
  readonly openTimeoutMs: number;
  /** For connecting and publishing. */
  readonly retry: RetryPolicy;
  /** To begin with at every relay, 0 for no limit; without it the relay set decides. */
  readonly eventsPerMinute?: number;
  /** The largest event to try, 0 for no limit; without it the relay set decides. */
  readonly maxEventBytes?: number;
  /** Hears of relays that a question waits for, each once. */
  readonly onWaiting?: ((relays: readonly string[]) => void) | undefined;
  /** A stranger named the relays: what leads to a private address is not dialled. */
  readonly publicOnly?: boolean | undefined;
  /** Longer events are passed over unread. */
  readonly longestEventBytes?: number | undefined;
  /** Relays that are read, of those given, so that each event comes so many times; without it, or with 0, all of them. */
  readonly copies?: number | undefined;
}

/** Connects, and proves to relays that ask whose key this is; throws `relay/none-reachable` when no relay answers. */
export async function connectRelays(
  urls: readonly string[],
  { publicOnly = false, copies = 0, ...connection }: Connection,
  auth: Signer,
  signal: AbortSignal,
): Promise<RelaySet> {
  const reconciling = new Set<string>();
  const relays = createRelaySet(urls, {
    openSocket: publicOnly ? openPublicSocket : openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    fetchInfo: async (url, stop) => {
      const info = await fetchRelayInfo(url, { signal: stop, publicOnly });
      if (info.ok && info.value.supportedNips.includes(77)) reconciling.add(url);
      return info;
    },
    reconciles: (relay) => reconciling.has(relay),
    auth,
    ...connection,
    own: (names) => relaysOfKey(names, auth.publicKey, copies),
  });
  try {
    await relays.ready(signal);
    return relays;
  } catch (error) {
    await relays.close();
    throw error;
  }
}
