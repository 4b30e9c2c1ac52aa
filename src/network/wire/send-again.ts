/**
 * Sends this worker's latest gradients once more to a relay that was away and has lost them: a relay that keeps its events in memory
 * forgets them when it restarts, and workers that were not connected then would wait for ever.
 */
import type { RelaySet } from '../transport/relay-set.ts';
import type { Sealed } from './wire.ts';

export interface SendAgain {
  /** A gradient went out for the first time. */
  sent(sealed: Sealed): void;
  /** This relay is being asked for the run's events: for the first time, or after its connection was lost. */
  connected(relay: string): void;
}

interface Options {
  readonly relays: RelaySet;
  send(sealed: Sealed): unknown;
  readonly signal: AbortSignal;
}

/** Peers are at most one round behind a worker that they wait for. */
const KEPT = 2;
/** How long a relay may take to say whether it has a gradient. */
const LOOK_MS = 5000;

export function createSendAgain({ relays, send, signal }: Options): SendAgain {
  const known = new Set<string>();
  const looking = new Set<string>();
  let latest: readonly Sealed[] = [];

  /** One look at a time at each relay: one that hangs up again and again is not flooded. */
  async function look(relay: string): Promise<void> {
    const mine = latest;
    const ids = mine.map(({ event }) => event.id);
    const asked = { only: [relay], waitMs: LOOK_MS, signal };
    const { events, unanswered } = await relays.query([{ ids }], asked);
    if (unanswered.length > 0) return;
    const held = new Set(events.map(({ id }) => id));
    for (const sealed of mine) {
      if (held.has(sealed.event.id)) continue;
      if (sealed.payload) send(sealed);
      else await relays.publish(sealed.event, { only: [relay], signal });
    }
  }

  return {
    sent(sealed) {
      latest = [...latest.filter(({ event }) => event.id !== sealed.event.id), sealed].slice(-KEPT);
    },
    connected(relay) {
      const isBack = known.has(relay);
      known.add(relay);
      if (!isBack || latest.length === 0 || looking.has(relay)) return;
      looking.add(relay);
      void look(relay)
        .catch(() => undefined) // closed meanwhile
        .finally(() => looking.delete(relay));
    },
  };
}
