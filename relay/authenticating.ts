/**
 * Handles AUTH (NIP-42): a key authenticates to this connection with a signed event, which is not stored or delivered.
 */
import type { Connection } from './core.ts';
import { type Arrival, AUTH_KIND, findForgery, isRecord, parseArrival, valuesOf } from './event.ts';

/** Maximum difference between the event's date and now, in seconds. */
const WINDOW_SECONDS = 600;

/** Answers an AUTH event. Several keys may authenticate one after the other. */
export function authenticate(session: Connection, raw: unknown): void {
  const arrival = parseArrival(raw);
  if (typeof arrival === 'string') {
    const id = isRecord(raw) && typeof raw.id === 'string' && raw.id.length <= 64 ? raw.id : '';
    session.answer(id, false, `invalid: ${arrival}`);
    return;
  }
  const fault = findFault(session, arrival);
  session.answer(arrival.id, fault === undefined, fault === undefined ? '' : `invalid: ${fault}`);
}

function findFault(session: Connection, event: Arrival): string | undefined {
  if (event.kind !== AUTH_KIND) return `AUTH takes an event of kind ${AUTH_KIND}`;
  if (Math.abs(event.created_at - session.nowSeconds()) > WINDOW_SECONDS) {
    return `created_at is more than ${WINDOW_SECONDS} s from now`;
  }
  if (!valuesOf(event.tags, 'relay').some((url) => session.isMine(url))) {
    return 'relay tag does not name this relay';
  }
  if (findForgery(event)) return 'signature does not verify';
  const challenge = valuesOf(event.tags, 'challenge')[0] ?? '';
  return session.admit(event.pubkey, challenge) ? undefined : 'challenge is not ours';
}
