/** The gradients of one round, from one relay or several, and what ended the wait for more. */
import { gradient } from '../../../kinds/gradient.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { RejectReason } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { EventOf, ReferenceEvent } from '../wire/reference-event.ts';
import { type RelayAttempts, type RetryTotals, retryTotals } from '../wire/retry-telemetry.ts';
import { type Collection, collect, type Patience } from './collect.ts';
import type { ReadingPorts } from './read-relay.ts';
import { discoverWorkers, type WorkersFound, workersOf } from './workers.ts';

/** What a collection waits for besides silence; the names are the Python reference's. */
export type SyncStrategy = 'timeout' | 'strict' | 'quorum' | 'async';

/** Which gradients `collectGradientEvents` asks for, and when it is done. */
export interface GradientsQuery extends Patience {
  readonly run: string;
  readonly round: number;
  /** So many workers are enough. */
  readonly limit?: number | undefined;
  /** Unix seconds; older events are not asked for. */
  readonly since?: number | undefined;
  /** Default `timeout`: silence. */
  readonly sync?: SyncStrategy | undefined;
  /** Looks for heartbeats first; `strict` and `quorum` always do. */
  readonly discover?: boolean | undefined;
  readonly heartbeats?:
    | {
        /** Default that of the query. */
        readonly idleMs?: number | undefined;
        /** Unix seconds; default that of the query. */
        readonly since?: number | undefined;
        readonly maxMissed?: number | undefined;
      }
    | undefined;
}

/** What `collectGradientEvents` gives. */
export interface GradientsFound extends Collection<EventOf<'gradient'>> {
  readonly run: string;
  readonly round: number;
  readonly sync: SyncStrategy;
  /** What each relay was waited for: with several of them none is enough alone. */
  readonly syncAt: SyncStrategy;
  /** Why it ended: `limit`, the strategy, `relay-closed`, `idle-timeout`, `deadline`, `too-much`. */
  readonly reason: string;
  readonly known: readonly WorkerId[];
  readonly workers: WorkersFound | undefined;
}

/**
 * Gradients of one round, verified, the newest of each worker, sorted by worker. Ends with what `sync` waits for, else with
 * silence. What a relay sent that does not count is counted by reason, a relay that failed is told of in `failed`: never rejects
 * but with `ports.signal.reason`, or a ConfigError for an address that is none. Where the only relay fails while workers are
 * looked for, no gradients are asked of it.
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
 * const found = await collectGradientEvents([relay.url], { run: 'tea', round: 0, limit: 1 }, ports);
 * await relay.close();
 * found.reason; // => 'limit'
 * const { read } = found.events[0]!;
 * read.said.worker; // => signer.publicKey
 * decompressPayload(read.said.payload).ok; // => true
 * ```
 */
export async function collectGradients(
  relays: readonly string[],
  query: GradientsQuery,
  ports: ReadingPorts,
): Promise<GradientsFound> {
  const { run, round, limit, since, sync = 'timeout', idleMs, maxMs } = query;
  const workers = await discover(relays, query, ports);
  const known = workers ? workersOf(workers) : [];
  const isAlone = relays.length === 1;
  const syncAt = isAlone || sync === 'async' ? sync : 'timeout';
  const reasonFor = (strategy: SyncStrategy) => (count: number, isCaughtUp: boolean) =>
    reasonToEnd({ strategy, count, limit, known: known.length, isCaughtUp });
  const asked = isAlone && workers && workers.failed.length > 0 ? [] : relays;
  const found = await collect(
    asked,
    {
      operation: 'collect-gradients',
      idleMs,
      maxMs,
      filter: gradient.filter({}, since === undefined ? {} : { since }),
      wanted: {
        run,
        nowSeconds: Math.floor(ports.clock.now() / 1000),
        isOf,
        zstd: ports.zstd,
        matches: (tags) => tags.round === round,
      },
      enough: reasonFor(syncAt),
    },
    ports,
  );
  const isAsync = found.at.length > 0 && found.at.every(({ reason }) => reason === 'async');
  const reason = isAlone
    ? (found.at[0]?.reason ?? 'idle-timeout')
    : (reasonFor(sync)(found.events.length, isAsync) ?? sharedReason(found));
  return {
    ...found,
    relays: relays.map(withoutSecrets),
    failed: [...(workers?.failed ?? []), ...found.failed],
    notices: [...(workers?.notices ?? []), ...found.notices],
    run,
    round,
    sync,
    syncAt,
    reason,
    known,
    workers,
  };
}

async function discover(
  relays: readonly string[],
  { run, round, since, sync, discover: isWanted, heartbeats, ...patience }: GradientsQuery,
  ports: ReadingPorts,
): Promise<WorkersFound | undefined> {
  if (!isWanted && sync !== 'strict' && sync !== 'quorum') return undefined;
  return discoverWorkers(
    relays,
    {
      run,
      round,
      maxMs: patience.maxMs,
      idleMs: heartbeats?.idleMs ?? patience.idleMs,
      since: heartbeats?.since ?? since,
      maxMissed: heartbeats?.maxMissed,
    },
    ports,
  );
}

interface Progress {
  readonly strategy: SyncStrategy;
  /** Workers whose gradient is there. */
  readonly count: number;
  readonly limit: number | undefined;
  readonly known: number;
  readonly isCaughtUp: boolean;
}

/** Why a collection that has come so far may end, if it may. */
function reasonToEnd({ strategy, count, limit, known, isCaughtUp }: Progress): string | undefined {
  if (limit !== undefined && count >= limit) return 'limit';
  if (strategy === 'async' && isCaughtUp) return 'async';
  if (known === 0) return undefined;
  if (strategy === 'strict' && count >= known) return 'strict';
  if (strategy === 'quorum' && count > Math.floor(known / 2)) return 'quorum';
  return undefined;
}

/** Of several relays that all ended for one of these, else silence. */
function sharedReason({ at }: Collection<EventOf<'gradient'>>): string {
  const shared = ['relay-closed', 'deadline', 'too-much'];
  const first = at[0]?.reason;
  const isShared = first !== undefined && at.every(({ reason }) => reason === first);
  return isShared && shared.includes(first) ? first : 'idle-timeout';
}

const isOf = (read: ReferenceEvent): read is EventOf<'gradient'> => read.type === 'gradient';

/** Retries of the collection and of the discovery before it, as the Python reference adds them up. */
export function gradientRetries({ at, failed, workers }: GradientsFound): RetryTotals {
  const all: readonly RelayAttempts[] = [...at, ...failed, ...(workers?.at ?? [])];
  return retryTotals(all);
}

/** What a collected gradient weighs: its examples, 1 where it does not say. */
export const weightOf = ({ said }: EventOf<'gradient'>): number => said.examples ?? 1;

/** Whether any of them says how many examples it saw. */
export const isWeighted = ({ events }: Pick<GradientsFound, 'events'>): boolean =>
  events.some(({ read }) => read.said.examples !== undefined);

/** How many events did not count. */
export const invalidCount = (invalid: ReadonlyMap<RejectReason, number>): number =>
  [...invalid.values()].reduce((sum, count) => sum + count, 0);
