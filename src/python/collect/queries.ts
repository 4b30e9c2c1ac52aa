/** Queries relays for the events of a run: gradients of a round, late gradients, heartbeats, checkpoints. */
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { isStale, type RejectReason } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { EventOf } from '../wire/reference-event.ts';
import { type RelayAttempts, type RetryTotals, retryTotals } from '../wire/retries.ts';
import { type CollectedEvent, type Collection, collect, type Patience } from './collect.ts';
import type { ReadingPorts } from './read-relay.ts';

interface RunQuery extends Patience {
  readonly run: string;
  /** Date of the oldest event to query, in Unix seconds. */
  readonly since?: number | undefined;
}

/** Which heartbeats `collectHeartbeatEvents` queries. */
export interface WorkersQuery extends RunQuery {
  /** Only workers that report this round or a later one. */
  readonly round?: number | undefined;
  /** A worker is gone after missing this many of its own intervals; default 3. */
  readonly maxMissed?: number | undefined;
}

/** The result of `collectHeartbeatEvents`. */
export interface CollectedWorkers extends Collection<EventOf<'heartbeat'>> {
  readonly run: string;
  readonly round: number | undefined;
}

/**
 * Collects the newest heartbeat of each live worker, verified and sorted by worker; a worker that left or missed too
 * many of its own intervals is stale. Ends when relays have sent their stored events, or after silence. Failing relays
 * are in `failed`: rejects only with `ports.signal.reason`, or with a ConfigError for an invalid address.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, collectHeartbeatEvents, createRelayPorts, createSigner } from 'nostrain/python';
 * import { publishHeartbeatEvent } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const ports = createRelayPorts({ openSocket });
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const heartbeat = { run: 'tea', round: 2, worker: signer.publicKey, interval: 60 };
 * const createdAt = Math.floor(Date.now() / 1000);
 * await publishHeartbeatEvent([relay.url], buildHeartbeatEvent({ ...heartbeat, createdAt }, signer), ports);
 *
 * const collected = await collectHeartbeatEvents([relay.url], { run: 'tea', round: 1 }, ports);
 * await relay.close();
 * collected.events.map(({ read }) => read.tags.worker); // => [signer.publicKey]
 * ```
 */
export async function discoverWorkers(
  relays: readonly string[],
  { round, maxMissed = 3, ...query }: WorkersQuery,
  ports: ReadingPorts,
): Promise<CollectedWorkers> {
  const nowSeconds = Math.floor(ports.clock.now() / 1000);
  const request = {
    ...query,
    operation: 'collect-heartbeats',
    type: 'heartbeat',
    matches: (tags: { readonly round: number }) => round === undefined || tags.round >= round,
    isStale({ read: { tags }, createdAt }: CollectedEvent<EventOf<'heartbeat'>>) {
      const { interval: intervalSeconds, leaving = false } = tags;
      return isStale({ intervalSeconds, leaving, createdAt }, nowSeconds, maxMissed);
    },
  } as const;
  return { ...(await collect(relays, request, ports)), run: query.run, round };
}

/** Returns the names of the workers; each name is the worker's key, so it is unique. */
const workersOf = ({ events }: Pick<CollectedWorkers, 'events'>): readonly WorkerId[] =>
  events.map(({ read }) => read.tags.worker);

/** Returns the names of workers that have only stale heartbeats. */
export function staleWorkersOf(collected: CollectedWorkers): readonly WorkerId[] {
  const alive = new Set(workersOf(collected));
  const stale = collected.stale.map(({ read }) => read.tags.worker);
  return [...new Set(stale)].filter((worker) => !alive.has(worker)).sort();
}

/** What a collection waits for in addition to silence; the names are the Python reference's. */
export type SyncStrategy = 'timeout' | 'strict' | 'quorum' | 'async';

/** Which gradients `collectGradientEvents` queries, and when it ends. */
export interface GradientsQuery extends RunQuery {
  readonly round: number;
  /** Number of workers that are enough. */
  readonly limit?: number | undefined;
  /** Default `timeout`, which ends after silence. */
  readonly sync?: SyncStrategy | undefined;
  /** Collects heartbeats first; `strict` and `quorum` always do. */
  readonly discover?: boolean | undefined;
  /** Settings of that collection; `idleMs` and `since` default to those of this query. */
  readonly heartbeats?: Pick<WorkersQuery, 'idleMs' | 'since' | 'maxMissed'> | undefined;
}

/** The result of `collectGradientEvents`. */
export interface CollectedGradients extends Collection<EventOf<'gradient'>> {
  readonly run: string;
  readonly round: number;
  readonly sync: SyncStrategy;
  /** The strategy used at each relay: with several relays, one relay alone never completes a round. */
  readonly syncAt: SyncStrategy;
  /** Why it ended: `limit`, the name of the strategy, `relay-closed`, `idle-timeout`, `deadline`, `too-much`. */
  readonly reason: string;
  readonly known: readonly WorkerId[];
  readonly workers: CollectedWorkers | undefined;
}

/**
 * Collects the newest gradient of each worker in one round, verified and sorted by worker. Ends when `sync` is
 * satisfied, or after silence. Refused events are counted by reason, failing relays are in `failed`: rejects only with
 * `ports.signal.reason`, or with a ConfigError for an invalid address. If the only relay fails during discovery, it is
 * not queried for gradients.
 *
 * @example
 * ```ts
 * import { buildGradientEvent, collectGradientEvents, compressDelta, createLayout } from 'nostrain/python';
 * import { createRelayPorts, createSigner, decompressPayload, publishGradientEvent } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const ports = createRelayPorts({ openSocket });
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const layout = createLayout([{ name: 'w', shape: [2] }]);
 * const { payload } = compressDelta({ layout, values: Float64Array.of(127, 2) }, { ratio: 1 });
 * const about = { run: 'tea', round: 0, worker: signer.publicKey, model: 'ab'.repeat(32), steps: 500 };
 * const createdAt = Math.floor(Date.now() / 1000);
 * await publishGradientEvent([relay.url], buildGradientEvent({ ...about, createdAt }, payload, signer), ports);
 *
 * const collected = await collectGradientEvents([relay.url], { run: 'tea', round: 0, limit: 1 }, ports);
 * await relay.close();
 * collected.reason; // => 'limit'
 * const { read } = collected.events[0]!;
 * read.tags.worker; // => signer.publicKey
 * decompressPayload(read.tags.payload).ok; // => true
 * ```
 */
export async function collectGradients(
  relays: readonly string[],
  query: GradientsQuery,
  ports: ReadingPorts,
): Promise<CollectedGradients> {
  const { run, round, limit, since, sync = 'timeout', idleMs, maxMs } = query;
  const isWithHeartbeats = query.discover || sync === 'strict' || sync === 'quorum';
  const patience = { idleMs: query.heartbeats?.idleMs ?? idleMs, maxMs };
  const discovery = { ...query.heartbeats, since: query.heartbeats?.since ?? since, ...patience };
  const workers = isWithHeartbeats
    ? await discoverWorkers(relays, { run, round, ...discovery }, ports)
    : undefined;
  const known = workers ? workersOf(workers) : [];
  const isAlone = relays.length === 1;
  const syncAt = isAlone || sync === 'async' ? sync : 'timeout';
  /** Returns why a collection with that many events may end, if it may. */
  const reasonFor = (strategy: SyncStrategy) => (count: number, isCaughtUp: boolean) => {
    if (limit !== undefined && count >= limit) return 'limit';
    if (strategy === 'async' && isCaughtUp) return 'async';
    if (known.length === 0) return undefined;
    if (strategy === 'strict' && count >= known.length) return 'strict';
    if (strategy === 'quorum' && count > Math.floor(known.length / 2)) return 'quorum';
    return undefined;
  };
  const collected = await collect(
    isAlone && workers && workers.failed.length > 0 ? [] : relays,
    {
      run,
      since,
      idleMs,
      maxMs,
      operation: 'collect-gradients',
      type: 'gradient',
      matches: (tags) => tags.round === round,
      enough: reasonFor(syncAt),
    },
    ports,
  );
  const isAsync = collected.at.length > 0 && collected.at.every(({ reason }) => reason === 'async');
  const reason = isAlone
    ? (collected.at[0]?.reason ?? 'idle-timeout')
    : (reasonFor(sync)(collected.events.length, isAsync) ?? sharedReason(collected));
  return {
    ...collected,
    relays: relays.map(withoutSecrets),
    failed: [...(workers?.failed ?? []), ...collected.failed],
    notices: [...(workers?.notices ?? []), ...collected.notices],
    run,
    round,
    sync,
    syncAt,
    reason,
    known,
    workers,
  };
}

/** Returns the reason for which all of several relays ended, if it is one of these; else `idle-timeout`. */
function sharedReason({ at }: Collection<EventOf<'gradient'>>): string {
  const shared = ['relay-closed', 'deadline', 'too-much'];
  const first = at[0]?.reason;
  const isShared = first !== undefined && at.every(({ reason }) => reason === first);
  return isShared && shared.includes(first) ? first : 'idle-timeout';
}

/** Returns the retries of a collection and of its discovery, added up as in the Python reference. */
export function gradientRetries({ at, failed, workers }: CollectedGradients): RetryTotals {
  const all: readonly RelayAttempts[] = [...at, ...failed, ...(workers?.at ?? [])];
  return retryTotals(all);
}

/** Returns the weight of a collected gradient: its examples, or 1 if it does not state them. */
export const weightOf = ({ tags }: EventOf<'gradient'>): number => tags.examples ?? 1;

/** Reports whether any gradient states its number of examples. */
export const isWeighted = ({ events }: Pick<CollectedGradients, 'events'>): boolean =>
  events.some(({ read }) => read.tags.examples !== undefined);

/** Returns the number of refused events. */
export const invalidCount = (invalid: ReadonlyMap<RejectReason, number>): number =>
  [...invalid.values()].reduce((sum, count) => sum + count, 0);

/** Which gradients `collectLateGradientEvents` queries. */
export interface LateGradientsQuery extends RunQuery {
  /** Only gradients of rounds before this one. */
  readonly currentRound: number;
}

/** The result of `collectLateGradientEvents`. */
export interface CollectedLateGradients extends Collection<EventOf<'gradient'>> {
  readonly run: string;
  readonly currentRound: number;
}

/** Default idle time that ends a collection of late gradients; short, since it does not wait for more to arrive. */
const LATE_IDLE_MS = 200;

/**
 * Collects the newest gradient of each worker and earlier round, verified and sorted by round and worker; without
 * `since` from the whole history of the run. Ends when relays have sent their stored events, or after 0.2 s of silence.
 * Fails like `collectGradientEvents`.
 *
 * @example
 * ```ts
 * import { collectLateGradientEvents, createRelayPorts } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 *
 * const query = { run: 'tea', currentRound: 3 };
 * const collected = await collectLateGradientEvents(['ws://127.0.0.1:1'], query, createRelayPorts({ openSocket }));
 * collected.failed.map(({ operation }) => operation); // => ['collect-late-gradients']
 * ```
 */
export async function collectLateGradients(
  relays: readonly string[],
  { currentRound, idleMs = LATE_IDLE_MS, ...query }: LateGradientsQuery,
  ports: ReadingPorts,
): Promise<CollectedLateGradients> {
  const request = {
    ...query,
    idleMs,
    operation: 'collect-late-gradients',
    type: 'gradient',
    matches: (tags: { readonly round: number }) => tags.round < currentRound,
  } as const;
  const collected = await collect(relays, request, ports);
  const events = [...collected.events].sort((a, b) => a.read.tags.round - b.read.tags.round);
  return { ...collected, events, run: query.run, currentRound };
}

/** Which checkpoints `collectCheckpointEvents` queries. */
export interface CheckpointsQuery extends RunQuery {
  /** Only checkpoints of this worker. */
  readonly worker?: string | undefined;
  /** Only checkpoints of this completed round or later ones. */
  readonly minRound?: number | undefined;
  /** Also accepts workers whose name is not their key. */
  readonly anyKey?: boolean | undefined;
}

export type CheckpointEvent = EventOf<'checkpoint'>;

/** The result of `collectCheckpointEvents`. */
export interface CollectedCheckpoints extends Collection<CheckpointEvent> {
  readonly run: string;
}

/**
 * Collects checkpoints of a run, by round and worker, with hashes and digests recomputed; `agreements` helps to decide
 * which of them to trust. Ends when relays have sent their stored events, or after silence. Fails like
 * `collectGradientEvents`.
 *
 * @example
 * ```ts
 * import { collectCheckpointEvents, createRelayPorts, latestCheckpoint } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 *
 * const query = { run: 'tea', minRound: 4 };
 * const collected = await collectCheckpointEvents(['ws://127.0.0.1:1'], query, createRelayPorts({ openSocket }));
 * latestCheckpoint(collected.events); // => undefined
 * ```
 */
export async function discoverCheckpoints(
  relays: readonly string[],
  { worker, minRound, ...query }: CheckpointsQuery,
  ports: ReadingPorts,
): Promise<CollectedCheckpoints> {
  const request = {
    ...query,
    operation: 'collect-checkpoints',
    type: 'checkpoint',
    matches: (tags: { readonly round: number; readonly worker: string | undefined }) =>
      (minRound === undefined || tags.round >= minRound) &&
      (worker === undefined || tags.worker === worker),
  } as const;
  return { ...(await collect(relays, request, ports)), run: query.run };
}

/**
 * Returns the checkpoint that claims the highest next round, the newest of several. That is no reason to trust it.
 *
 * @example
 * ```ts
 * import { latestCheckpoint } from 'nostrain/python';
 *
 * latestCheckpoint([]); // => undefined
 * ```
 */
export const latestOf = (
  events: readonly CollectedEvent<CheckpointEvent>[],
): CollectedEvent<CheckpointEvent> | undefined =>
  [...events].sort(
    (a, b) =>
      b.read.tags.nextRound - a.read.tags.nextRound ||
      b.read.tags.round - a.read.tags.round ||
      b.createdAt - a.createdAt ||
      compareCodePoints(b.eventId, a.eventId),
  )[0];
