/** Compares what peers say they hold with what we hold: equal cohorts must give equal bits. */
import type { Beat } from '../run/beat.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { WorkerEvent } from './events.ts';
import type { Session } from './session.ts';

/** A starting state of ours. */
export interface Held {
  readonly round: number;
  readonly digest: Digest;
  readonly cohort: readonly WorkerId[] | undefined;
}

type Divergence = Extract<WorkerEvent, { type: 'divergence' }>;

export interface Comparison {
  /** Remembers what we start a round from. */
  hold(held: Held): void;
  stop(): Promise<void>;
}

/** Reports every peer whose beat names other bits than ours for a round, once, until stopped. */
export function compareWithPeers({ ports: { wire, report } }: Session): Comparison {
  const held = new Map<number, Held>();
  const told = new Set<string>();
  const stopping = new AbortController();

  function check(): void {
    for (const beat of wire.beats.values()) {
      const found = differenceOf(beat, held.get(beat.round));
      const key = `${beat.worker}/${beat.round}`;
      if (beat.worker === wire.me || !found || told.has(key)) continue;
      told.add(key);
      report(found);
    }
  }

  async function keepChecking(): Promise<void> {
    while (!stopping.signal.aborted) {
      check();
      await wire.changed.next(stopping.signal).catch(() => undefined);
    }
    check();
  }

  const checking = keepChecking();
  return {
    hold(mine) {
      held.set(mine.round, mine);
      check();
    },
    async stop() {
      stopping.abort();
      await checking;
    },
  };
}

/** What to report of a beat about a round we hold too, where the digests differ. */
function differenceOf(beat: Beat, mine: Held | undefined): Divergence | undefined {
  if (!mine || !beat.digest || beat.digest === mine.digest) return undefined;
  const differing = firstDiffering(mine.cohort ?? [], beat.cohort ?? []);
  return {
    type: 'divergence',
    round: beat.round,
    peer: beat.worker,
    ours: mine.digest,
    theirs: beat.digest,
    ...(differing === undefined ? {} : { firstDiffering: differing }),
  };
}

/** The lowest key that is in one cohort and not in the other. */
function firstDiffering(
  ours: readonly WorkerId[],
  theirs: readonly WorkerId[],
): WorkerId | undefined {
  const mine = new Set(ours);
  const other = new Set(theirs);
  return [...new Set([...ours, ...theirs])].sort().find((id) => mine.has(id) !== other.has(id));
}
