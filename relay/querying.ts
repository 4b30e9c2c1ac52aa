/** REQ, COUNT and CLOSE: stored events newest first, EOSE, then whatever arrives. */

import type { Connection } from './core.ts';
import { type CompiledFilter, compileFilter } from './filter.ts';
import { EventFrames } from './frames.ts';
import type { Subscription } from './live-index.ts';
import type { Found } from './store.ts';

/** What a REQ or COUNT asks for. */
interface Query {
  readonly id: string;
  readonly filters: readonly CompiledFilter[];
}

/** Opens or replaces a subscription and sends what is stored, as fast as the reader takes it. */
export async function openSubscription(
  session: Connection,
  rest: readonly unknown[],
  bytes: number,
): Promise<void> {
  const { core, misdeeds } = session;
  const asked = readQuery(session, rest);
  const subscription = asked && hold(session, asked, bytes);
  if (!subscription) return;
  const { id, filters } = subscription;
  if (misdeeds.liesAtEose()) {
    core.counts.eosesFalse++;
    sayEose(session, id, 'finish');
    return;
  }
  const isWanted = () => session.subscriptions.get(id) === subscription;
  const deliveries: (Promise<unknown> | undefined)[] = [];
  const { entries, hint } = core.store.query(filters, session.nowSeconds());
  for (const entry of entries) {
    await session.room(isWanted);
    if (!isWanted()) return;
    deliveries.push(subscription.deliver(new EventFrames(entry.json)));
  }
  await Promise.all(deliveries);
  if (!isWanted()) return;
  if (misdeeds.stallsEose()) core.counts.eosesWithheld++;
  else sayEose(session, id, hint);
}

/** Takes the subscription in, in place of one of the same id; undefined when it is one too many, which the reader is told. */
function hold(
  session: Connection,
  { id, filters }: Query,
  bytes: number,
): Subscription | undefined {
  const { core, subscriptions, limits } = session;
  const most = limits.maxSubscriptions;
  if (!subscriptions.has(id) && subscriptions.size >= most) {
    session.say(...core.profile.manners.tooManySubscriptions(id, most));
    return undefined;
  }
  forget(session, id);
  let allBytes = bytes;
  for (const other of subscriptions.values()) allBytes += other.bytes;
  if (allBytes > limits.maxSubscriptionBytes) {
    refuse(session, id, 'error: the open subscriptions are too large together');
    return undefined;
  }
  const subscription: Subscription = {
    id,
    filters,
    bytes,
    deliver: (frames) =>
      subscriptions.get(id) === subscription ? session.deliver(frames, id) : undefined,
  };
  subscriptions.set(id, subscription);
  core.live.add(subscription);
  return subscription;
}

function forget(session: Connection, id: string): void {
  const subscription = session.subscriptions.get(id);
  if (!subscription) return;
  session.subscriptions.delete(id);
  session.core.live.remove(subscription);
  session.wake();
}

function sayEose(session: Connection, id: string, hint: Found['hint']): void {
  if (hint && session.core.profile.manners.hints) session.say('EOSE', id, [hint]);
  else session.say('EOSE', id);
}

/** Answers how many stored events match (NIP-45). */
export function countStored(session: Connection, rest: readonly unknown[]): void {
  const { profile, store } = session.core;
  if (!profile.manners.counts) {
    session.say('NOTICE', 'error: unknown message type');
    return;
  }
  const asked = readQuery(session, rest);
  if (!asked) return;
  session.say('COUNT', asked.id, { count: store.count(asked.filters, session.nowSeconds()) });
}

/** Forgets a subscription; closing one that is not open does nothing. */
export function closeSubscription(session: Connection, id: unknown): void {
  if (typeof id === 'string') forget(session, id);
  else session.say('NOTICE', 'invalid: subscription id is not a string');
}

/** Reads a REQ or COUNT; when it cannot be served, the reader has been told why. */
function readQuery(session: Connection, [id, ...raw]: readonly unknown[]): Query | undefined {
  const longest = session.limits.maxSubscriptionIdLength;
  if (typeof id !== 'string' || id === '' || id.length > longest) {
    session.say('NOTICE', `invalid: subscription id is not 1 to ${longest} characters`);
    return undefined;
  }
  if (session.auth === 'all' && session.keys.size === 0) {
    session.challenge();
    refuse(session, id, 'auth-required: reading here needs AUTH');
    return undefined;
  }
  const filters = compileFilters(session, raw);
  if (typeof filters !== 'string') return { id, filters };
  refuse(session, id, filters);
  return undefined;
}

/** Says that a REQ is not served, in the way of the profile. */
function refuse(session: Connection, id: string, reason: string): void {
  const { refusedReq, noticeWords } = session.core.profile.manners;
  forget(session, id);
  if (refusedReq === 'CLOSED') session.say('CLOSED', id, reason);
  else session.say('NOTICE', `${noticeWords}${reason.replace(/^(invalid|unsupported): /, '')}`);
}

function compileFilters(
  { limits, core }: Connection,
  raw: readonly unknown[],
): readonly CompiledFilter[] | string {
  if (raw.length === 0 || raw.length > limits.maxFilters) {
    return `invalid: 1 to ${limits.maxFilters} filters are taken`;
  }
  const filters: CompiledFilter[] = [];
  for (const item of raw) {
    const filter = compileFilter(item, limits, core.profile.manners.unknownFields);
    if (typeof filter === 'string') return filter;
    filters.push(filter);
  }
  return filters;
}
