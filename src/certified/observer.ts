/** Observing a round: what workers sent for it, and under `defer` what they sent for the round before and nobody listed. */
import type { EventId } from '../run/ids.ts';
import { lateOf } from '../run/ledger.ts';
import type { Bad, LateRow } from './compose.ts';
import type { DriverOptions } from './driven-round.ts';
import type { Noun } from './evidence.ts';
import { termsOf } from './rows.ts';
import { createWatch, type Wants, type Watch } from './watch.ts';

export interface Observer {
  /** Looks at what is here already, and asks for the rest of what came late. */
  begin(): void;
  take(noun: Extract<Noun, { readonly type: 'manifest' }>): void;
  /** Pulls a payload that a check lacks. */
  pull(manifest: EventId): void;
  bad(): readonly Bad[];
  /** Good ones of the round before that no outcome listed yet, under `defer`. */
  late(): readonly LateRow[];
  close(): void;
}

/** Watches the round to come, and the round before where some of it may still be listed. */
export function createObserver(
  { state, context, ports }: Pick<DriverOptions, 'state' | 'context' | 'ports'>,
  wants: Wants,
  onNoun: (noun: Noun) => void,
): Observer {
  const { pool, control } = ports;
  const roster = new Set(context.roster);
  const now = createWatch(termsOf(state, false)!, roster, pool, wants);
  const past = termsOf(state, true);
  const owing = lateOf(state.ledger);
  // that it is late says nothing about how long this round has to wait
  const apart: Wants = {
    ...wants,
    onHeld: wants.onChange,
    // what strangers sent for that round was told then
    onRefused: (rejection, id) => {
      if (owing.some((key) => key === rejection.worker)) wants.onRefused(rejection, id);
    },
  };
  const before: Watch | undefined =
    past !== null && owing.length > 0 ? createWatch(past, new Set(owing), pool, apart) : undefined;
  let listening: { close(): void } | undefined;
  return {
    begin() {
      if (before === undefined) return;
      for (const noun of pool.nouns()) if (noun.type === 'manifest') before.take(noun);
      listening = control.listenToManifests(state.round - 1, owing, { take: onNoun });
    },
    take(noun) {
      now.take(noun);
      before?.take(noun);
    },
    pull(id) {
      const noun = pool.noun(id);
      if (noun?.type !== 'manifest') return;
      (noun.manifest.round === state.round ? now : before)?.pull(noun);
    },
    bad: now.bad,
    late: () => before?.good() ?? [],
    close: () => listening?.close(),
  };
}
