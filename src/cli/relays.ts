/** Relays as a run needs them: reachable, and large enough for its gradients, before anything is trained. */
import { systemClock } from '../base/clock.ts';
import { ConfigError } from '../base/errors.ts';
import type { Stripe } from '../network/chunks/erasure.ts';
import type { Signer } from '../network/event.ts';
import { createRelaySet, type RelaySet } from '../network/transport/relay-set.ts';
import { brokenLimit, type EventSize } from '../network/wire/event-size.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { fetchRelayInfo } from '../node/relay-info.ts';
import { openSocket } from '../node/sockets.ts';
import type { Spread } from '../run/field.ts';
import type { Connection } from './connection.ts';

/** Connects, and proves to relays that ask whose key this is; throws `relay/none-reachable` when no relay answers. */
export async function connectRelays(
  urls: readonly string[],
  connection: Connection,
  auth: Signer,
  signal: AbortSignal,
): Promise<RelaySet> {
  const reconciling = new Set<string>();
  const relays = createRelaySet(urls, {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    fetchInfo: async (url, stop) => {
      const info = await fetchRelayInfo(url, { signal: stop });
      if (info.ok && info.value.supportedNips.includes(77)) reconciling.add(url);
      return info;
    },
    reconciles: (relay) => reconciling.has(relay),
    auth,
    ...connection,
  });
  try {
    await relays.ready(signal);
    return relays;
  } catch (error) {
    await relays.close();
    throw error;
  }
}

/** How payloads are striped; throws `relay/stripe` when there are fewer relays than parts. */
export function stripeOver(relays: readonly string[], { need, of }: Spread): Stripe | undefined {
  if (of === 1) return undefined;
  if (relays.length >= of) return { data: need, parity: of - need };
  throw new ConfigError('relay/stripe', `--stripe ${need}/${of} needs ${of} relays`, {
    hint: `${relays.length} given: add relays with --relay, or spread over fewer`,
  });
}

/** Throws `relay/too-small` when a relay states a limit the gradients would break. */
export async function assertRelaysFit(
  urls: readonly string[],
  size: EventSize,
  signal: AbortSignal,
): Promise<void> {
  const infos = await Promise.all(urls.map((url) => fetchRelayInfo(url, { signal })));
  infos.forEach((info, i) => {
    const limit = info.ok ? brokenLimit(size, info.value.limitation) : undefined;
    if (limit === undefined) return;
    const [need, has] = [kilobytes(size.eventBytes), kilobytes(limit)];
    throw new ConfigError(
      'relay/too-small',
      `${urls[i]} takes ${has}, the largest event of this run is about ${need}`,
      {
        hint: 'send less (--event-budget, or --topk where that decides), or use a relay you run: nostrain relay --max-event-bytes N',
      },
    );
  });
}

export const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;
