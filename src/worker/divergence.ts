/** Compares what peers say they hold with what we hold: equal cohorts must give equal bits. */
import type { Beat } from '../run/beat.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { WorkerEvent } from './events.ts';

/** A starting state of ours. */
export interface Held {
  readonly round: number;
  readonly digest: Digest;
  readonly cohort: readonly WorkerId[] | undefined;
}

type Divergence = Extract<WorkerEvent, { type: 'divergence' }>;

export interface DivergenceWatch {
  /** Remembers what we start a round from. */
  hold(held: Held): void;
  /** Divergences not reported before, one per peer and round. */
  check(beats: Iterable<Beat>): Divergence[];
}

export function createDivergenceWatch(me: WorkerId): DivergenceWatch {
  const held = new Map<number, Held>();
  const told = new Set<string>();
  return {
    hold: (mine) => void held.set(mine.round, mine),
    check(beats) {
      const found: Divergence[] = [];
      for (const beat of beats) {
        const mine = held.get(beat.round);
        const key = `${beat.worker}/${beat.round}`;
        if (beat.worker === me || !mine || !beat.digest || beat.digest === mine.digest) continue;
        if (told.has(key)) continue;
        told.add(key);
        const differing = firstDiffering(mine.cohort ?? [], beat.cohort ?? []);
        found.push({
          type: 'divergence',
          round: beat.round,
          peer: beat.worker,
          ours: mine.digest,
          theirs: beat.digest,
          ...(differing === undefined ? {} : { firstDiffering: differing }),
        });
      }
      return found;
    },
  };
}

/** The lowest key that is in one cohort and not in the other. */
export function firstDiffering(
  ours: readonly WorkerId[],
  theirs: readonly WorkerId[],
): WorkerId | undefined {
  const mine = new Set(ours);
  const other = new Set(theirs);
  return [...new Set([...ours, ...theirs])].sort().find((id) => mine.has(id) !== other.has(id));
}
