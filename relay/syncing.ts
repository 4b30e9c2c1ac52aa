/** NEG-OPEN, NEG-MSG and NEG-CLOSE (NIP-77): finding out together which stored events the other side lacks. */
import type { Connection } from './core.ts';
import { compileFilter } from './filter.ts';
import { IdList } from './negentropy/id-list.ts';
import { reconcile } from './negentropy/reconcile.ts';

/** Syncs of one connection that may be open at once; each holds an entry per matching event. */
const MAX_SYNCS = 2;

/** Opens or replaces a sync over what a filter matches; its limit does not count. */
export function openSync(session: Connection, [id, raw, message]: readonly unknown[]): void {
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
  const filter = compileFilter(raw, limits, core.profile.manners.unknownFields);
  if (typeof filter === 'string' || syncs.size >= MAX_SYNCS) {
    session.say('NEG-ERR', id, typeof filter === 'string' ? filter : 'blocked: too many syncs');
    return;
  }
  // the usual limit would hide older events from the other side
  const everything = { ...filter, limit: limits.maxStoredEvents };
  const { entries } = core.store.query([everything], session.nowSeconds());
  syncs.set(id, new IdList(entries));
  continueSync(session, [id, message]);
}

/** Answers the next message of an open sync. */
export function continueSync(session: Connection, [id, message]: readonly unknown[]): void {
  const ids = session.syncs.get(String(id));
  if (!ids) {
    session.say('NEG-ERR', String(id).slice(0, 64), 'closed: no such sync is open');
    return;
  }
  try {
    if (typeof message !== 'string') throw new RangeError('message is not hex');
    session.say('NEG-MSG', String(id), reconcile(ids, message));
  } catch (cause) {
    session.syncs.delete(String(id));
    const why = cause instanceof Error ? cause.message : String(cause);
    session.say('NEG-ERR', String(id), `invalid: ${why}`);
  }
}

export function closeSync(session: Connection, [id]: readonly unknown[]): void {
  session.syncs.delete(String(id));
}
