/** What a run asks of its relays: that there are enough, and that its gradients fit. */
import { ConfigError } from '../../base/errors.ts';
import type { Stripe } from '../../network/chunks/reed-solomon.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { brokenLimit, type EventSize } from '../../network/wire/event-size.ts';
import type { Spread } from '../../run/field.ts';
import { type FetchOptions, fetchRelayInfo } from './relay-info.ts';

/** How payloads are striped; throws `relay/stripe` when there are fewer relays than parts. */
export function stripeOver(relays: readonly string[], { need, of }: Spread): Stripe | undefined {
  if (of === 1) return undefined;
  if (relays.length >= of) return { data: need, parity: of - need };
  throw new ConfigError('relay/stripe', `--stripe ${need}/${of} needs ${of} relays`, {
    hint: `${relays.length} given: add relays with --relay, or spread over fewer`,
  });
}

/**
 * Says which relays state a limit that a run's largest event would break: they carry what fits them. Throws `relay/too-small` when the
 * others do not carry a whole payload.
 */
export async function assertRelaysFit(
  urls: readonly string[],
  size: EventSize,
  stripe: Stripe | undefined,
  {
    onNotice,
    ...how
  }: Pick<FetchOptions, 'publicOnly'> & {
    readonly signal: AbortSignal;
    onNotice(message: string): void;
  },
): Promise<void> {
  const infos = await Promise.all(urls.map((url) => fetchRelayInfo(url, how)));
  const limits = infos.map((info) =>
    info.ok ? brokenLimit(size, info.value.limitation) : undefined,
  );
  const small = limits.flatMap((limit, i) =>
    limit === undefined ? [] : [`${withoutSecrets(urls[i]!)} takes ${kilobytes(limit)}`],
  );
  if (small.length === 0) return;
  const words = `${small.join(', ')}, the largest event of this run is about ${kilobytes(size.eventBytes)}`;
  // relay i gets part i modulo their number
  const { data, parity } = stripe ?? { data: 1, parity: 0 };
  const carried = new Set(
    limits.flatMap((limit, i) => (limit === undefined ? i % (data + parity) : [])),
  );
  if (carried.size >= data) {
    onNotice(`${words}: smaller events go there, the others carry the rest`);
    return;
  }
  throw new ConfigError('relay/too-small', words, {
    hint: 'send less (--event-budget, or --topk where that decides), or use a relay you run: nostrain relay --max-event-bytes N',
  });
}

export const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;
