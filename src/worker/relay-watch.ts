/**
 * Relays at fault, for people: tells when every relay of the run is away (the worker trains on and loses nothing, but hears and is heard
 * by nobody meanwhile), and says when an error is theirs and not that of the other workers.
 */
import { type Watch, watchChanges } from '../base/async.ts';
import type { Wire } from '../network/wire/wire.ts';
import { restOf } from './peer-check.ts';
import type { Session } from './ports.ts';

/** A relay that comes and goes is not told of more often than this. */
const QUIET_MS = 60_000;

/** Whether there is no relay left that does what it should. */
export const relaysAreAtFault = (wire: Wire): boolean =>
  wire.troubles().length === wire.relays.length;

/** What to do where a relay is at fault. */
export const RELAY_HINT =
  'see what the relay allows with `nostrain relays check URL`, or give everybody one --relay more; then run the same command again';

/** Watches until stopped. */
export function watchRelays(session: Session): Watch {
  const { clock, wire, report } = session.ports;
  let toldMs = Number.NEGATIVE_INFINITY;
  let isAway = false;

  function look(): void {
    const wasAway = isAway;
    isAway = wire.reachable().length === 0;
    if (!isAway || wasAway || clock.now() - toldMs < QUIET_MS) return;
    toldMs = clock.now();
    const message = `relay away, trying again: ${wire.troubles().join('; ')}`;
    report({ type: 'notice', message });
  }

  return watchChanges(wire.changed, look, restOf(session));
}
