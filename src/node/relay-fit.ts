/** What a run asks of its relays: that there are enough, and that its gradients fit. */
import { ConfigError } from '../base/errors.ts';
import type { Stripe } from '../network/attachments/erasure.ts';
import { brokenLimit, type EventSize } from '../network/wire/event-size.ts';
import type { Spread } from '../run/field.ts';
import { fetchRelayInfo } from './relay-info.ts';

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
