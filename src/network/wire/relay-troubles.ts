/** Which relays of a run are at fault, in words for errors and notices: away, silent, refusing, not delivering. */
import type { Clock } from '../../base/async.ts';
import { type Delivery, wordsOfUnreachable } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';

/** How long a relay may take to answer, or to bring an event back, before it counts as silent. */
const PATIENCE_MS = 10_000;

interface Seen {
  queriedMs?: number | undefined;
  /** Its words when it closed the subscription for good. */
  closed?: string | undefined;
  refused?: string | undefined;
  /** When it took a heartbeat for the first time since one came back. */
  tookMs?: number | undefined;
  hasDelivered?: boolean;
}

export function createRelayTroubles(relays: RelaySet, clock: Clock) {
  const seen = new Map(relays.readRelays.map((relay): [string, Seen] => [relay, {}]));
  const of = (relay: string): Seen => seen.get(relay) ?? {};
  const isLate = (sinceMs: number | undefined) =>
    sinceMs !== undefined && clock.now() - sinceMs >= PATIENCE_MS;

  function lineOf(relay: string, isOpen: boolean): string | undefined {
    if (!isOpen) return wordsOfUnreachable(relay, relays.status());
    const { queriedMs, closed, refused, tookMs, hasDelivered } = of(relay);
    if (closed !== undefined) return `closes what we ask for (${closed || 'without a word'})`;
    if (isLate(queriedMs)) return 'does not answer what it is asked';
    if (refused !== undefined) return refused;
    return isLate(tookMs) && !hasDelivered ? 'takes events and does not hand them out' : undefined;
  }

  const handlers = {
    onQueried(relay: string) {
      Object.assign(of(relay), { queriedMs: clock.now(), closed: undefined });
    },
    onCaughtUp(relay: string) {
      of(relay).queriedMs = undefined;
    },
    onLost(relay: string, message: string) {
      Object.assign(of(relay), { queriedMs: undefined, closed: message });
    },
    onRepeated: (_: string, relay: string) => {
      of(relay).hasDelivered = true;
    },
  };
  return {
    handlers,
    cameBack(relay: string): void {
      of(relay).hasDelivered = true;
    },
    /** What became of a heartbeat of this worker. */
    delivered({ accepted, failed }: Delivery): void {
      for (const relay of accepted) {
        const about = of(relay);
        about.refused = undefined;
        about.tookMs ??= clock.now();
      }
      for (const { relay, message } of failed) of(relay).refused = message;
    },
    /** One line for each relay that is at fault now: its address and what it does, in its own words if any. */
    lines: (): readonly string[] =>
      relays.status().flatMap(({ relay, state }) => {
        if (!seen.has(relay)) return [];
        const line = lineOf(relay, state === 'open');
        return line === undefined ? [] : [`${relay} ${line}`];
      }),
  };
}
