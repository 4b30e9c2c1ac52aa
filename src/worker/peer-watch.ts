/** Reports what the other workers do, for whoever watches: in which round each is, whose gradients are here, who is gone. */
import { type Watch, watchChanges } from '../base/async.ts';
import { isStale } from '../run/heartbeat.ts';
import type { WorkerId } from '../run/ids.ts';
import type { WorkerEvent } from './events.ts';
import { restOf } from './peer-check.ts';
import type { Session } from './ports.ts';
import type { OpenRound } from './strategy.ts';

export interface PeerWatch extends Watch {
  /** The round that gradients arrive for from now on. */
  follow(round: number, open: Pick<OpenRound<never>, 'arrived'>): void;
}

type Status = Omit<Extract<WorkerEvent, { type: 'peer' }>, 'type' | 'worker'>;

const NONE: ReadonlyMap<WorkerId, number> = new Map();

const isSame = (before: Status | undefined, now: Status): boolean =>
  before !== undefined &&
  before.state === now.state &&
  before.round === now.round &&
  before.digest === now.digest &&
  before.eventBytes === now.eventBytes;

/** Reports each change of each peer once, until stopped. */
export function watchPeers(session: Session): PeerWatch {
  const { plan } = session;
  const { clock, wire, report } = session.ports;
  const told = new Map<WorkerId, Status>();
  let round = 0;
  let arrivals = (): ReadonlyMap<WorkerId, number> => NONE;

  function statusOf(worker: WorkerId, eventBytes: number | undefined): Status | undefined {
    const heartbeat = wire.heartbeats.get(worker);
    const digest = heartbeat?.digest && { digest: heartbeat.digest };
    const isAhead = heartbeat !== undefined && heartbeat.round > round;
    if (eventBytes !== undefined && !isAhead) return { state: 'sent', round, eventBytes };
    if (!heartbeat) return undefined;
    const isAway = isStale(heartbeat, clock.now() / 1000, plan.maxMissedHeartbeats);
    return { state: isAway ? 'away' : 'training', round: heartbeat.round, ...digest };
  }

  function look(): void {
    const arrived = arrivals();
    for (const worker of wire.heartbeats.keys()) lookAt(worker, arrived);
    for (const worker of arrived.keys()) if (!wire.heartbeats.has(worker)) lookAt(worker, arrived);
    const isHere = (worker: WorkerId) => wire.heartbeats.has(worker) || arrived.has(worker);
    for (const worker of told.keys()) if (!isHere(worker)) told.delete(worker);
  }

  function lookAt(worker: WorkerId, arrived: ReadonlyMap<WorkerId, number>): void {
    const status = worker === wire.me ? undefined : statusOf(worker, arrived.get(worker));
    if (!status || isSame(told.get(worker), status)) return;
    told.set(worker, status);
    report({ type: 'peer', worker, ...status });
  }

  const { stop } = watchChanges(wire.changed, look, restOf(session));
  return {
    follow(next, { arrived }) {
      round = next;
      arrivals = arrived ?? (() => NONE);
      look();
    },
    stop,
  };
}
