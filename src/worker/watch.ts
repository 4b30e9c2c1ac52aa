/**
 * Watches and reports during a run: peers' progress, diverging states, different settings, and relays that are all
 * offline.
 */

import { watchChanges } from '../base/async.ts';
import { Recent } from '../base/bounded.ts';
import { type Heartbeat, isStale } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { shortName } from '../run/worker-names.ts';
import type { WorkerEvent } from './events.ts';
import { differencesOfPeers, hasDifferentSettings } from './peers.ts';
import type { Session } from './ports.ts';
import type { OpenRound } from './strategy.ts';

/**
 * Watches until stopped; calls `answer` once if another process uses this worker's key, so that it hears of this one.
 */
export function watchRun(session: Session, answer: () => void) {
  const stopping = new AbortController();
  const divergences = reportDivergences(session);
  const peers = reportPeers(session);
  const checks = [
    divergences.check,
    peers.check,
    reportRelaysAway(session),
    reportDifferentStarts(session, answer, stopping.signal),
  ];
  const checkAll = () => {
    for (const check of checks) check();
  };
  const watch = watchChanges(session.ports.wire.changed, checkAll, restOf(session));
  return {
    follow: peers.follow,
    remember: divergences.remember,
    async stop(): Promise<void> {
      stopping.abort();
      await watch.stop();
      divergences.check();
    },
  };
}

/** Crowd size: above it, peers are checked once a second, and less often the more there are. */
const CROWD = 16;
const CROWD_CHECK_MS = 1000;
const CHECK_MS_PER_WORKER = 4;
const MAX_CHECK_MS = 10_000;

/**
 * Returns the pause between two checks of all workers: none for few workers, longer in a crowd, so that checks cost the
 * same.
 */
export const restOf =
  ({ ports: { clock, wire } }: Session) =>
  (signal: AbortSignal): Promise<void> | undefined => {
    const { size } = wire.heartbeats;
    if (size <= CROWD) return undefined;
    return clock.sleep(
      Math.min(MAX_CHECK_MS, Math.max(CROWD_CHECK_MS, CHECK_MS_PER_WORKER * size)),
      signal,
    );
  };

type Status = Omit<Extract<WorkerEvent, { type: 'peer' }>, 'type' | 'worker'>;

const NONE: ReadonlyMap<WorkerId, number> = new Map();

const isSame = (before: Status | undefined, now: Status): boolean =>
  before !== undefined &&
  before.state === now.state &&
  before.name === now.name &&
  before.round === now.round &&
  before.digest === now.digest &&
  before.eventBytes === now.eventBytes;

/** Reports each change of each peer once. */
export function reportPeers(session: Session) {
  const { plan } = session;
  const { clock, wire, report } = session.ports;
  const reported = new Map<WorkerId, Status>();
  let round = 0;
  let arrivals = (): ReadonlyMap<WorkerId, number> => NONE;

  function statusOf(worker: WorkerId, eventBytes: number | undefined): Status | undefined {
    const heartbeat = wire.heartbeats.get(worker);
    const digest = heartbeat?.digest && { digest: heartbeat.digest };
    const name = heartbeat?.name !== undefined && { name: heartbeat.name };
    const isAhead = heartbeat !== undefined && heartbeat.round > round;
    if (eventBytes !== undefined && !isAhead) return { state: 'sent', round, eventBytes, ...name };
    if (!heartbeat) return undefined;
    const isAway = isStale(heartbeat, clock.now() / 1000, plan.maxMissedHeartbeats);
    return { state: isAway ? 'away' : 'training', round: heartbeat.round, ...digest, ...name };
  }

  function check(): void {
    const arrived = arrivals();
    for (const worker of wire.heartbeats.keys()) checkWorker(worker, arrived);
    for (const worker of arrived.keys())
      if (!wire.heartbeats.has(worker)) checkWorker(worker, arrived);
    const isKnown = (worker: WorkerId) => wire.heartbeats.has(worker) || arrived.has(worker);
    for (const worker of reported.keys()) if (!isKnown(worker)) reported.delete(worker);
  }

  function checkWorker(worker: WorkerId, arrived: ReadonlyMap<WorkerId, number>): void {
    const status = worker === wire.me ? undefined : statusOf(worker, arrived.get(worker));
    if (!status || isSame(reported.get(worker), status)) return;
    reported.set(worker, status);
    report({ type: 'peer', worker, ...status });
  }

  return {
    check,
    /** Sets the round whose contributions arrive from now on. */
    follow(next: number, { arrived }: Pick<OpenRound<never>, 'arrived'>): void {
      round = next;
      arrivals = arrived ?? (() => NONE);
      check();
    },
  };
}

export interface KnownState extends Pick<Heartbeat, 'round' | 'cohort' | 'features'> {
  readonly digest: Digest;
}

type Divergence = Extract<WorkerEvent, { type: 'divergence' }>;

/** Maximum own states remembered; peers further behind are not compared. */
const MOST_KNOWN = 16;

/** Reports once per round every peer whose heartbeat has a different digest. */
function reportDivergences(session: Session) {
  const { plan } = session;
  const { wire, report } = session.ports;
  const known = new Map<number, KnownState>();
  const reported = new Map<number, Set<WorkerId>>();

  function check(): void {
    for (const heartbeat of wire.heartbeats.values()) {
      const divergence = differenceOf(heartbeat, known.get(heartbeat.round));
      // other settings are reported by fingerprint instead
      if (!divergence || divergence.peer === wire.me || hasDifferentSettings(heartbeat, plan))
        continue;
      const before = reported.get(divergence.round) ?? new Set();
      if (before.has(divergence.peer)) continue;
      reported.set(divergence.round, before.add(divergence.peer));
      report(divergence);
    }
  }

  return {
    check,
    /** Stores the state that this worker starts a round from, to compare it with its peers. */
    remember(mine: KnownState): void {
      known.delete(mine.round);
      known.set(mine.round, mine);
      for (const round of [...known.keys()].slice(0, -MOST_KNOWN)) {
        known.delete(round);
        reported.delete(round);
      }
      check();
    },
  };
}

/** Returns the divergence to report for a heartbeat of a known round; undefined if the digests agree. */
function differenceOf(heartbeat: Heartbeat, mine: KnownState | undefined): Divergence | undefined {
  if (!mine || !heartbeat.digest) return undefined;
  if (heartbeat.digest === mine.digest && !heartbeat.features?.widths) return undefined;
  // with tiers, compare the slices that both have; the first digest is the state's own
  const [ours, theirs] = [digestsIn(mine.digest, mine), digestsIn(heartbeat.digest, heartbeat)];
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

const digestsIn = (
  digest: Digest,
  { features }: Pick<Heartbeat, 'features'>,
): readonly Digest[] => [digest, ...(features?.widths?.rings.slice(1) ?? [])];

function firstDiffering(
  ours: readonly WorkerId[],
  theirs: readonly WorkerId[],
): WorkerId | undefined {
  const mine = new Set(ours);
  const other = new Set(theirs);
  return [...new Set([...ours, ...theirs])].sort().find((id) => mine.has(id) !== other.has(id));
}

/** Minimum time between two notices about unreachable relays. */
const QUIET_MS = 60_000;

/**
 * Reports when all relays are offline, and when one is back. Meanwhile the worker keeps training, but others do not
 * hear it.
 */
function reportRelaysAway({ ports: { clock, wire, report } }: Session): () => void {
  let reportedMs = Number.NEGATIVE_INFINITY;
  let isAway = false;
  let isReported = false;
  const tell = (message: string) => report({ type: 'notice', message, about: 'relays' });
  return () => {
    const wasAway = isAway;
    isAway = wire.reachable().length === 0;
    if (!isAway && isReported) {
      isReported = false;
      tell(`relay back after ${Math.round((clock.now() - reportedMs) / 1000)} s`);
    }
    if (!isAway || wasAway || clock.now() - reportedMs < QUIET_MS) return;
    reportedMs = clock.now();
    isReported = true;
    tell(`relay offline, retrying: ${wire.troubles().join('; ')}`);
  };
}

/** Maximum notices remembered: anyone may join with other settings under new keys. */
const MAX_REPORTED = 1024;
/** Delay of the answer, longer than a newly started process distrusts heartbeats of its own key. */
const ANSWER_MS = 4000;

/** Reports once each peer with different settings, and another process with this key. */
function reportDifferentStarts(
  session: Session,
  answer: () => void,
  signal: AbortSignal,
): () => void {
  const { clock, wire, report } = session.ports;
  const reported = new Recent<true>(MAX_REPORTED);
  const tell = (message: string): void => {
    if (reported.get(message)) return;
    reported.set(message, true);
    report({ type: 'notice', message });
  };
  return () => {
    const inUse = keyInUse(wire.me);
    if (wire.isKeyInUse && !reported.get(inUse)) {
      tell(inUse);
      void clock.sleep(ANSWER_MS, signal).then(answer, () => undefined);
    }
    for (const difference of differencesOfPeers(session)) tell(difference);
  };
}

const keyInUse = (me: string): string =>
  `Another process trains in this run with the key of this worker (${shortName(me)}): ` +
  'stop one, or give one its own key with --key-file FILE.';
