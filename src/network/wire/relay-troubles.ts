/** Describes in words which relays of a run are at fault: unreachable, silent, refusing, or not delivering. */
import type { Clock } from '../../base/async.ts';
import { type Delivery, wordsOfUnreachable } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';

/** Time after which a relay that did not answer, or did not send a heartbeat back, counts as silent. */
const PATIENCE_MS = 10_000;

interface Seen {
  queriedMs?: number | undefined;
  /** The relay's message when it closed the subscription for good. */
  closed?: string | undefined;
  refused?: string | undefined;
  /** When it accepted the first heartbeat since one came back. */
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
    if (closed !== undefined) return `closes our subscription (${closed || 'no reason given'})`;
    if (isLate(queriedMs)) return 'does not answer queries';
    if (refused !== undefined) return refused;
    return isLate(tookMs) && !hasDelivered ? 'accepts events but does not deliver them' : undefined;
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
    /** Notes the delivery of a heartbeat of this worker. */
    delivered({ accepted, failed }: Delivery): void {
      for (const relay of accepted) {
        const about = of(relay);
        about.refused = undefined;
        about.tookMs ??= clock.now();
      }
      for (const { relay, message } of failed) of(relay).refused = message;
    },
    /**
     * Returns one line per relay that is at fault now: its address and the problem, in the relay's words if there are
     * any.
     */
    lines: (): readonly string[] =>
      relays.status().flatMap(({ relay, state }) => {
        if (!seen.has(relay)) return [];
        const line = lineOf(relay, state === 'open');
        return line === undefined ? [] : [`${relay} ${line}`];
      }),
  };
}
