/** REQ and CLOSE: stored events newest first, EOSE, then whatever arrives. */

import type { Connection } from './core.ts';
import { type CompiledFilter, compileFilter } from './filter.ts';
import { eventFrames } from './frames.ts';

/** Opens or replaces a subscription and sends what is stored, as fast as the reader takes it. */
export async function openSubscription(
  session: Connection,
  rest: readonly unknown[],
): Promise<void> {
  const [id, ...raw] = rest;
  const { limits } = session;
  if (typeof id !== 'string' || id === '' || id.length > limits.maxSubscriptionIdLength) {
    session.say('NOTICE', 'invalid: subscription id is not 1 to 64 characters');
    return;
  }
  const filters = compileFilters(session, id, raw);
  if (typeof filters === 'string') {
    session.subscriptions.delete(id);
    session.say('CLOSED', id, filters);
    return;
  }
  session.subscriptions.set(id, filters);
  const deliveries: (Promise<unknown> | undefined)[] = [];
  for (const entry of session.core.store.query(filters, session.nowSeconds())) {
    await session.room();
    if (session.subscriptions.get(id) !== filters) return;
    deliveries.push(session.deliver(eventFrames(entry.json)(id), id));
  }
  await Promise.all(deliveries);
  if (session.subscriptions.get(id) === filters) session.say('EOSE', id);
}

/** Forgets a subscription; closing one that is not open does nothing. */
export function closeSubscription(session: Connection, id: unknown): void {
  if (typeof id === 'string') session.subscriptions.delete(id);
  else session.say('NOTICE', 'invalid: subscription id is not a string');
}

function compileFilters(
  session: Connection,
  id: string,
  raw: readonly unknown[],
): readonly CompiledFilter[] | string {
  const { limits, subscriptions } = session;
  if (!subscriptions.has(id) && subscriptions.size >= limits.maxSubscriptions) {
    return `error: too many open subscriptions, the limit is ${limits.maxSubscriptions}`;
  }
  if (raw.length === 0 || raw.length > limits.maxFilters) {
    return `invalid: a REQ has 1 to ${limits.maxFilters} filters`;
  }
  const filters: CompiledFilter[] = [];
  for (const item of raw) {
    const filter = compileFilter(item, limits);
    if (typeof filter === 'string') return filter;
    filters.push(filter);
  }
  return filters;
}
