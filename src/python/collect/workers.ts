/** Who is there: the heartbeats of a run, and whose have stopped. */
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { isStale } from '../../run/heartbeat.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { EventOf, ReferenceEvent } from '../wire/reference-event.ts';
import { type Collection, collect, type Patience } from './collect.ts';
import type { Kept } from './event-collector.ts';
import type { ReadingPorts } from './read-relay.ts';

/** Which heartbeats `collectHeartbeatEvents` asks for. */
export interface WorkersQuery extends Patience {
  readonly run: string;
  /** Only workers that say they are in this round or a later one. */
  readonly round?: number | undefined;
  /** Unix seconds; older events are not asked for. */
  readonly since?: number | undefined;
  /** A worker is gone after missing so many of its own intervals; default 3. */
  readonly maxMissed?: number | undefined;
}

/** What `collectHeartbeatEvents` gives. */
export interface WorkersFound extends Collection<EventOf<'heartbeat'>> {
  readonly run: string;
  readonly round: number | undefined;
}

/**
 * Heartbeats of live workers, verified, the newest of each, sorted by worker; a worker that missed too many of its own intervals,
 * or left, is stale. Ends once relays have sent what they stored, or with silence. A relay that failed is told of in `failed`:
 * never rejects but with `ports.signal.reason`, or a ConfigError for an address that is none.
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
 * const found = await collectHeartbeatEvents([relay.url], { run: 'tea', round: 1 }, ports);
 * await relay.close();
 * found.events.map(({ read }) => read.said.worker); // => [signer.publicKey]
 * ```
 */
export async function discoverWorkers(
  relays: readonly string[],
  { run, round, since, maxMissed = 3, idleMs, maxMs }: WorkersQuery,
  ports: ReadingPorts,
): Promise<WorkersFound> {
  const nowSeconds = Math.floor(ports.clock.now() / 1000);
  const collection = await collect(
    relays,
    {
      operation: 'collect-heartbeats',
      idleMs,
      maxMs,
      filter: heartbeat.filter({}, since === undefined ? {} : { since }),
      wanted: {
        run,
        nowSeconds,
        isOf,
        matches: (tags) => round === undefined || tags.round >= round,
      },
      isStale: (kept) => isStaleHeartbeat(kept, nowSeconds, maxMissed),
      enough: (_, isCaughtUp) => (isCaughtUp ? 'caught-up' : undefined),
    },
    ports,
  );
  return { ...collection, run, round };
}

/** The workers heard of, by name; one that several keys claim to be cannot be, since names are keys. */
export const workersOf = ({ events }: Pick<WorkersFound, 'events'>): readonly WorkerId[] =>
  events.map(({ read }) => read.said.worker);

/** Workers of whom nothing but stale heartbeats was heard, by name. */
export function staleWorkersOf(found: WorkersFound): readonly WorkerId[] {
  const alive = new Set(workersOf(found));
  const stale = found.stale.map(({ read }) => read.said.worker);
  return [...new Set(stale)].filter((worker) => !alive.has(worker)).sort();
}

const isOf = (read: ReferenceEvent): read is EventOf<'heartbeat'> => read.type === 'heartbeat';

function isStaleHeartbeat(
  { read, createdAt }: Kept<EventOf<'heartbeat'>>,
  nowSeconds: number,
  maxMissed: number,
): boolean {
  const { interval: intervalSeconds, leaving = false } = read.said;
  return isStale({ intervalSeconds, leaving, createdAt }, nowSeconds, maxMissed);
}
