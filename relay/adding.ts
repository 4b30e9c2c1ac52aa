/** EVENT, stage by stage: read, known, judged, kept, answered, delivered. */

import type { Connection } from './core.ts';
import { type Arrival, isEphemeral, isRecord, parseArrival } from './event.ts';
import { eventFrames } from './frames.ts';

/** Takes one published event through all stages; every way out answers the author. */
export function addEvent(session: Connection, raw: unknown): void {
  const { counts, store } = session.core;
  if (session.swallows()) {
    counts.eventsSwallowed++;
    return;
  }
  const arrival = parseArrival(raw);
  if (typeof arrival === 'string') {
    refuse(session, isRecord(raw) ? raw.id : undefined, `invalid: ${arrival}`);
    return;
  }
  if (store.has(arrival.id)) {
    counts.eventsDuplicate++;
    session.answer(arrival.id, true, 'duplicate: already have this event');
    return;
  }
  const refusal = judge(session, arrival);
  if (refusal !== undefined) {
    refuse(session, arrival.id, refusal);
    return;
  }
  if (!keep(session, arrival)) {
    refuse(session, arrival.id, 'replaced: have a newer event');
    return;
  }
  counts.eventsAccepted++;
  session.answer(arrival.id, true, '');
  broadcast(session, arrival);
}

/** The first policy that objects, as it is worded on the wire. */
function judge(session: Connection, arrival: Arrival): string | undefined {
  for (const policy of session.core.policies) {
    const refusal = policy(arrival, session);
    if (refusal) return `${refusal.prefix}: ${refusal.message}`;
  }
  return undefined;
}

/** Keeps what its class says is kept; false when a newer version is there already. */
function keep({ core }: Connection, arrival: Arrival): boolean {
  if (isEphemeral(arrival.kind)) return true;
  const { id, pubkey, created_at, kind, tags, json } = arrival;
  return core.store.add({ id, pubkey, created_at, kind, tags, json }) !== 'replaced';
}

/** Sends the event to every subscription it matches, the author's own included. */
function broadcast({ core }: Connection, arrival: Arrival): void {
  const frameFor = eventFrames(arrival.json);
  for (const session of core.sessions) {
    for (const [subscription, filters] of session.subscriptions) {
      if (filters.some((filter) => filter.matches(arrival))) {
        void session.deliver(frameFor(subscription), subscription);
      }
    }
  }
}

function refuse(session: Connection, id: unknown, message: string): void {
  session.core.counts.eventsRefused++;
  if (typeof id === 'string' && id.length <= 64) session.answer(id, false, message);
  else session.say('NOTICE', message);
}
