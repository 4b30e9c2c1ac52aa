/**
 * Handles EVENT messages in stages: parse, check for duplicates, apply the policies, store, answer, deliver to
 * subscribers.
 */

import type { Connection, Core } from './core.ts';
import { type Arrival, isEphemeral, isRecord, parseArrival } from './event.ts';
import { EventFrames } from './messages.ts';
import type { Work } from './turns.ts';

/** Units of work per tag for checking and indexing an event. */
const TAG_UNITS = 4;

/** Takes one published event through all stages; each outcome is answered. `isPlain` as in `parseArrival`. */
export function* addEvent(session: Connection, raw: unknown, isPlain: boolean): Work<void> {
  const { counts, store } = session.core;
  if (session.adversary.swallows()) {
    counts.eventsSwallowed++;
    return;
  }
  const arrival = parseArrival(raw, isPlain);
  if (typeof arrival === 'string') {
    refuse(session, isRecord(raw) ? raw.id : undefined, `invalid: ${arrival}`);
    return;
  }
  // yield before the lookup, so that no other connection stores the event between lookup and storing
  yield TAG_UNITS * arrival.tags.length;
  if (session.adversary.discards()) {
    counts.eventsDiscarded++;
    session.answer(arrival.id, true, '');
    return;
  }
  if (session.adversary.throttles(session.core.nowMs())) {
    refuse(session, arrival.id, 'rate-limited: slow down');
    return;
  }
  if (store.has(arrival.id)) {
    counts.eventsDuplicate++;
    const { duplicate } = session.core.profile.dialect.words;
    const words = duplicate ?? 'duplicate: already have this event';
    onceSynced(session, arrival, session.core.log?.settled(), () =>
      session.answer(arrival.id, true, words),
    );
    return;
  }
  const refusal = judge(session, arrival) ?? (yield* keep(session, arrival));
  if (refusal !== undefined) {
    refuse(session, arrival.id, refusal);
    return;
  }
  const synced = store.has(arrival.id) ? persist(session, arrival) : undefined;
  // deliver to current subscribers; one that subscribes during the disk write gets it from the store
  const { listeners, tested } = session.core.live.matching(arrival);
  yield tested + listeners.size;
  onceSynced(session, arrival, synced, () => {
    counts.eventsAccepted++;
    session.answer(arrival.id, true, '');
    const frames = new EventFrames(arrival.json);
    for (const subscription of listeners) void subscription.deliver(frames);
  });
}

/** Appends the event to the log, if there is one; ephemeral events stay in memory only. */
const persist = ({ core }: Connection, { kind, json }: Arrival): Promise<void> | undefined =>
  isEphemeral(kind) ? undefined : core.log?.append(json);

/** Continues once the event is on disk, or at once if there is nothing to wait for. */
function onceSynced(
  session: Connection,
  { id }: Arrival,
  synced: Promise<void> | undefined,
  then: () => void,
): void {
  if (!synced) {
    then();
    return;
  }
  void synced.then(then, () => refuse(session, id, 'error: the event could not be stored'));
}

/** Returns the first refusal of the policies, worded for the wire. */
function judge(session: Connection, arrival: Arrival): string | undefined {
  const { words } = session.core.profile.dialect;
  for (const policy of session.core.policies) {
    const refusal = policy(arrival, session);
    if (!refusal) continue;
    if (refusal.prefix === 'auth-required') session.challenge();
    return (refusal.code && words[refusal.code]) ?? `${refusal.prefix}: ${refusal.message}`;
  }
  return undefined;
}

/** Stores the event if its class is stored; returns why not, if it was not. */
function* keep(session: Connection, arrival: Arrival): Work<string | undefined> {
  const { core } = session;
  if (isEphemeral(arrival.kind) && core.limits.ephemeralKeepSeconds === 0) return undefined;
  const { id, pubkey, created_at, kind, tags, json } = arrival;
  const entry = { id, pubkey, created_at, kind, tags, json };
  const kept = yield* core.store.adding(entry, session.nowSeconds());
  if (kept === 'replaced') return 'replaced: have a newer event';
  if (kept === 'deleted') return 'deleted: its author has deleted this event';
  if (kept === 'too-large') return 'error: the event is more than this relay can keep';
  if (kept === 'full') return 'error: the store is full and this author has too many events in it';
  forgetLater(core, id);
  return undefined;
}

/** Deletes the event after a while, if the faults say so. */
function forgetLater({ faults, store, setTimer }: Core, id: string): void {
  if (faults.forgetAfter === undefined) return;
  const forget = () => {
    const entry = store.find(id);
    if (entry) store.remove(entry);
  };
  setTimer(forget, faults.forgetAfter * 1000);
}

function refuse(session: Connection, id: unknown, message: string): void {
  session.core.counts.eventsRefused++;
  if (typeof id === 'string' && id.length <= 64) session.answer(id, false, message);
  else session.say('NOTICE', message);
}
