/** Replays events to roots as a browser page does; bundled for Chromium, and also called in Node.js to compare. */

import { gather, genesisOf, replay, specsOf, startOf } from 'nostrain/certified/parts';
import { type SignedEvent, verifyEvent } from 'nostrain/network';

export interface Roots {
  readonly genuine: number;
  readonly checked: readonly string[];
  readonly modelRoots: readonly string[];
  readonly ledgerRoots: readonly string[];
  readonly digests: readonly string[];
}

/** Roots of every round of the only run among the events. */
export function run(events: readonly SignedEvent[]): Roots {
  const genuine = events.filter((event) => verifyEvent(event).ok);
  const [[id, spec]] = [...specsOf(genuine)] as [[string, Parameters<typeof startOf>[0]]];
  const playing = replay(genesisOf(spec, startOf(spec)), gather(genuine, { run: id, spec }));
  const rounds = [];
  for (;;) {
    const next = playing.next();
    if (next.done) {
      return {
        genuine: genuine.length,
        checked: rounds.map(({ checked }) => checked),
        modelRoots: rounds.map(({ decided }) => decided?.outcome.modelRoot ?? ''),
        ledgerRoots: rounds.map(({ decided }) => decided?.outcome.ledgerRoot ?? ''),
        digests: next.value.digests,
      };
    }
    rounds.push(next.value);
  }
}
