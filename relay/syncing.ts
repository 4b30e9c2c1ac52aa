/** Handles NEG-OPEN, NEG-MSG and NEG-CLOSE (NIP-77): set reconciliation of stored events. */
import type { Connection, Core, Sync } from './core.ts';
import { compileFilter } from './filter.ts';
import { IdList, reconcile } from './negentropy.ts';
import type { Work } from './turns.ts';

/** Maximum open syncs of one connection; each holds 72 bytes per matching event. */
const MAX_SYNCS = 2;
/** A sync that is unused for this long is closed. */
const IDLE_MS = 60_000;

/** Opens or replaces a sync over the matches of a filter, ignoring its limit. */
export function* openSync(session: Connection, [id, raw, message]: readonly unknown[]): Work<void> {
  const { core, syncs, limits } = session;
  if (typeof id !== 'string' || id === '' || id.length > limits.maxSubscriptionIdLength) {
    session.say('NOTICE', 'invalid: subscription id is missing or too long');
    return;
  }
  syncs.delete(id);
  if (session.auth === 'all' && session.keys.size === 0) {
    session.challenge();
    session.say('NEG-ERR', id, 'auth-required: reading here needs AUTH');
    return;
  }
  const filter = compileFilter(raw, limits, core.profile.dialect.unknownFields);
  if (typeof filter === 'string' || syncs.size >= MAX_SYNCS) {
    session.say('NEG-ERR', id, typeof filter === 'string' ? filter : 'blocked: too many syncs');
    return;
  }
  const matching = yield* core.store.matching(filter, session.nowSeconds());
  if (matching.length + openItems(core) > limits.maxScanned) {
    session.say('NEG-ERR', id, 'blocked: too many syncs are open on this relay');
    return;
  }
  const ids = yield* IdList.build(matching);
  syncs.set(id, { ids, usedMs: session.nowMs() });
  yield* continueSync(session, [id, message]);
}

/** Returns the number of ids in all open syncs. */
function openItems({ sessions }: Core): number {
  let items = 0;
  for (const { syncs } of sessions) for (const { ids } of syncs.values()) items += ids.size;
  return items;
}

/** Answers the next message of an open sync. */
export function* continueSync(session: Connection, [id, message]: readonly unknown[]): Work<void> {
  const name = typeof id === 'string' ? id.slice(0, session.limits.maxSubscriptionIdLength) : '';
  const sync = session.syncs.get(name);
  if (!sync) {
    session.say('NEG-ERR', name, 'closed: no such sync is open');
    return;
  }
  session.syncs.set(name, { ...sync, usedMs: session.nowMs() });
  try {
    session.say('NEG-MSG', name, yield* reconcile(sync.ids, message));
  } catch (cause) {
    session.syncs.delete(name);
    const why = cause instanceof Error ? cause.message : String(cause);
    session.say('NEG-ERR', name, `invalid: ${why}`);
  }
}

export function closeSync(session: Connection, [id]: readonly unknown[]): void {
  if (typeof id === 'string') session.syncs.delete(id);
}

/** Closes syncs that are no longer used. */
export function closeIdleSyncs(syncs: Map<string, Sync>, nowMs: number): void {
  for (const [id, { usedMs }] of syncs) if (nowMs - usedMs > IDLE_MS) syncs.delete(id);
}
