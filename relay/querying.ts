/** Handles REQ, COUNT and CLOSE: sends stored events newest first, then EOSE, then live events. */

import type { Connection } from './core.ts';
import type { Subscription } from './event-index.ts';
import { type CompiledFilter, compileFilter } from './filter.ts';
import { EventFrames } from './messages.ts';
import type { StoredMatches } from './store.ts';
import type { Work } from './turns.ts';

/** A parsed REQ or COUNT. */
interface Query {
  readonly id: string;
  readonly filters: readonly CompiledFilter[];
}

/** Bytes counted per filter in addition to its message. */
const FILTER_BYTES = 512;
/** Units of work per stored event sent, and bytes that cost another unit. */
const [SENT_UNITS, UNIT_BYTES] = [8, 1024];

/** Opens or replaces a subscription, and starts to send the stored events. */
export function* openSubscription(
  session: Connection,
  rest: readonly unknown[],
  bytes: number,
): Work<void> {
  const { core, adversary } = session;
  const query = readQuery(session, rest);
  if (query && adversary.closesReq()) {
    refuse(session, query.id, 'error: shutting down idle subscriptions');
    return;
  }
  const subscription = query && hold(session, query, bytes);
  if (!subscription) return;
  const { id, filters } = subscription;
  if (adversary.liesAtEose()) {
    core.counts.eosesFalse++;
    sendEose(session, id, 'finish');
    return;
  }
  const matches = yield* core.store.querying(filters, session.nowSeconds());
  const ids = matches.entries.map((entry) => entry.id);
  void sendStored(session, subscription, ids, matches.hint);
}

/** Sends the results at the reader's speed, then EOSE. Events deleted in the meantime are not sent. */
async function sendStored(
  session: Connection,
  subscription: Subscription,
  ids: readonly string[],
  hint: StoredMatches['hint'],
): Promise<void> {
  const { core, adversary, account } = session;
  const { id } = subscription;
  const isWanted = () => session.subscriptions.get(id) === subscription;
  const deliveries: Promise<unknown>[] = [];
  for (const stored of ids) {
    await session.drained(isWanted);
    await core.turns.next(account);
    if (!isWanted()) return;
    const entry = core.store.find(stored);
    if (!entry) continue;
    core.turns.spend(account, SENT_UNITS + entry.json.length / UNIT_BYTES);
    const delivery = subscription.deliver(new EventFrames(entry.json));
    if (delivery) deliveries.push(delivery);
  }
  await Promise.all(deliveries);
  if (!isWanted()) return;
  if (adversary.stallsEose()) core.counts.eosesWithheld++;
  else sendEose(session, id, hint);
}

/**
 * Adds the subscription, replacing one with the same id. If a limit is reached, answers the client and returns
 * undefined.
 */
function hold(
  session: Connection,
  { id, filters }: Query,
  bytes: number,
): Subscription | undefined {
  const { core, account, subscriptions, limits } = session;
  const most = limits.maxSubscriptions;
  if (!subscriptions.has(id) && subscriptions.size >= most) {
    session.say(...core.profile.dialect.tooManySubscriptions(id, most));
    return undefined;
  }
  forget(session, id);
  const size = bytes + FILTER_BYTES * filters.length;
  if (!hasCapacity(session, size)) {
    refuse(session, id, 'error: the open subscriptions are too large in total');
    return undefined;
  }
  const subscription: Subscription = {
    id,
    filters,
    bytes: size,
    deliver: (frames) =>
      subscriptions.get(id) === subscription ? session.deliver(frames, id) : undefined,
  };
  subscriptions.set(id, subscription);
  core.live.add(subscription);
  account.subscribed += size;
  core.subscribed.bytes += size;
  return subscription;
}

/** Reports whether `size` more bytes are within the limits of this connection, its address and the whole relay. */
function hasCapacity({ core, account, isNear, subscriptions, limits }: Connection, size: number) {
  const { maxSubscriptionBytes, maxSubscriptionBytesInAll } = limits;
  let connectionBytes = size;
  for (const { bytes } of subscriptions.values()) connectionBytes += bytes;
  const ofAddress = isNear ? 0 : account.subscribed + size;
  return (
    connectionBytes <= maxSubscriptionBytes &&
    ofAddress <= maxSubscriptionBytesInAll / 8 &&
    core.subscribed.bytes + size <= maxSubscriptionBytesInAll
  );
}

export function forget(session: Connection, id: string): void {
  const subscription = session.subscriptions.get(id);
  if (!subscription) return;
  session.subscriptions.delete(id);
  session.core.live.remove(subscription);
  session.account.subscribed -= subscription.bytes;
  session.core.subscribed.bytes -= subscription.bytes;
  session.wake();
}

function sendEose(session: Connection, id: string, hint: StoredMatches['hint']): void {
  if (hint && session.core.profile.dialect.hints) session.say('EOSE', id, [hint]);
  else session.say('EOSE', id);
}

/** Answers how many stored events match (NIP-45). */
export function* countStored(session: Connection, rest: readonly unknown[]): Work<void> {
  const { profile, store } = session.core;
  if (!profile.dialect.counts) {
    session.say('NOTICE', 'error: unknown message type');
    return;
  }
  const query = readQuery(session, rest);
  if (!query) return;
  const count = yield* store.counting(query.filters, session.nowSeconds());
  session.say('COUNT', query.id, { count });
}

/** Closes a subscription; ignores one that is not open. */
export function closeSubscription(session: Connection, id: unknown): void {
  if (typeof id === 'string') forget(session, id);
  else session.say('NOTICE', 'invalid: subscription id is not a string');
}

/** Parses a REQ or COUNT; if it is invalid, answers the client and returns undefined. */
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

/** Answers that a REQ is refused, in the manner of the profile. */
export function refuse(session: Connection, id: string, reason: string): void {
  const { refusedReq, noticeWords } = session.core.profile.dialect;
  forget(session, id);
  if (refusedReq === 'CLOSED') session.say('CLOSED', id, reason);
  else session.say('NOTICE', `${noticeWords}${reason.replace(/^(invalid|unsupported): /, '')}`);
}

function compileFilters(
  { limits, core }: Connection,
  raw: readonly unknown[],
): readonly CompiledFilter[] | string {
  if (raw.length === 0 || raw.length > limits.maxFilters) {
    return `invalid: 1 to ${limits.maxFilters} filters are allowed`;
  }
  const filters: CompiledFilter[] = [];
  for (const item of raw) {
    const filter = compileFilter(item, limits, core.profile.dialect.unknownFields);
    if (typeof filter === 'string') return filter;
    filters.push(filter);
  }
  if (core.store.candidates(filters) > limits.maxScanned) {
    return 'error: the filters match too many events to scan';
  }
  return filters;
}
