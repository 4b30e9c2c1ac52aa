/** Compares what peers say they hold with what we hold: equal cohorts must give equal bits. */
import { type Watch, watchChanges } from '../base/async.ts';
import type { Heartbeat } from '../run/heartbeat.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { FeatureValues } from '../run/spec/features.ts';
import type { WorkerEvent } from './events.ts';
import { hasOtherTerms, restOf } from './peer-check.ts';
import type { Session } from './ports.ts';

/** A starting state of ours. */
export interface KnownState {
  readonly round: number;
  readonly digest: Digest;
  readonly cohort: readonly WorkerId[] | undefined;
  readonly features?: FeatureValues<'heartbeat'>;
}

type Divergence = Extract<WorkerEvent, { type: 'divergence' }>;

/** Own states that are remembered: a peer that is further behind is not compared. */
const MOST_KNOWN = 16;

export interface Comparison extends Watch {
  /** Remembers what we start a round from. */
  remember(state: KnownState): void;
}

/** Reports every peer whose heartbeat names other bits than ours for a round, once, until stopped. */
export function compareWithPeers(session: Session): Comparison {
  const { plan } = session;
  const { wire, report } = session.ports;
  /** By round, the newest last. */
  const known = new Map<number, KnownState>();
  const told = new Map<number, Set<WorkerId>>();

  function check(): void {
    for (const heartbeat of wire.heartbeats.values()) {
      const found = differenceOf(heartbeat, known.get(heartbeat.round));
      // of other terms it is told by what it was started with
      if (!found || found.peer === wire.me || hasOtherTerms(heartbeat, plan)) continue;
      const before = told.get(found.round) ?? new Set();
      if (before.has(found.peer)) continue;
      told.set(found.round, before.add(found.peer));
      report(found);
    }
  }

  const watch = watchChanges(wire.changed, check, restOf(session));
  return {
    remember(mine) {
      known.delete(mine.round);
      known.set(mine.round, mine);
      for (const round of [...known.keys()].slice(0, -MOST_KNOWN)) {
        known.delete(round);
        told.delete(round);
      }
      check();
    },
    async stop() {
      await watch.stop();
      check();
    },
  };
}

/** What to report of a heartbeat about a round we hold too, where the digests differ. */
function differenceOf(heartbeat: Heartbeat, mine: KnownState | undefined): Divergence | undefined {
  if (!mine || !heartbeat.digest) return undefined;
  if (heartbeat.digest === mine.digest && !heartbeat.features?.widths) return undefined;
  // of tiers what both have is compared, ring by ring; the first one is the digest itself
  const [ours, theirs] = [digestsIn(mine), digestsIn(heartbeat)];
  const at = ours.findIndex((digest, i) => theirs[i] !== undefined && theirs[i] !== digest);
  if (at < 0) return undefined;
  const differing = firstDiffering(mine.cohort ?? [], heartbeat.cohort ?? []);
  return {
    type: 'divergence',
    round: heartbeat.round,
    peer: heartbeat.worker,
    ours: ours[at]!,
    theirs: theirs[at]!,
    ...(differing === undefined ? {} : { firstDiffering: differing }),
  };
}

const digestsIn = ({
  digest,
  features,
}: Pick<Heartbeat, 'digest' | 'features'>): readonly Digest[] => [
  ...(digest === undefined ? [] : [digest]),
  ...(features?.widths?.rings.slice(1) ?? []),
];

/** The lowest key that is in one cohort and not in the other. */
function firstDiffering(
  ours: readonly WorkerId[],
  theirs: readonly WorkerId[],
): WorkerId | undefined {
  const mine = new Set(ours);
  const other = new Set(theirs);
  return [...new Set([...ours, ...theirs])].sort().find((id) => mine.has(id) !== other.has(id));
}
