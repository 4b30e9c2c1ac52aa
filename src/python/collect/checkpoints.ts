/** Checkpoints of a run as relays have them, and the newest one: newest by what it says itself, which is no reason to trust it. */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { EventOf, ReferenceEvent } from '../wire/reference-event.ts';
import { type Collection, collect, type Patience } from './collect.ts';
import type { Kept } from './event-collector.ts';
import type { ReadingPorts } from './read-relay.ts';

/** Which checkpoints `collectCheckpointEvents` asks for. */
export interface CheckpointsQuery extends Patience {
  readonly run: string;
  /** Only of this worker. */
  readonly worker?: string | undefined;
  /** Only of this completed round or later ones. */
  readonly minRound?: number | undefined;
  /** Unix seconds; older events are not asked for. */
  readonly since?: number | undefined;
  /** Also of workers whose name is not their key. */
  readonly anyKey?: boolean | undefined;
}

export type CheckpointEvent = EventOf<'checkpoint'>;

/** What `collectCheckpointEvents` gives. */
export interface CheckpointsFound extends Collection<CheckpointEvent> {
  readonly run: string;
}

/**
 * Every checkpoint of a run that holds together, by round and worker: hashes and digests are recomputed. Whose to use is another
 * question: see `agreements`. Ends once relays have sent what they stored, or with silence. A relay that failed is told of in
 * `failed`: never rejects but with `ports.signal.reason`, or a ConfigError for an address that is none.
 *
 * @example
 * ```ts
 * import { collectCheckpointEvents, createRelayPorts, latestCheckpoint } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const ports = createRelayPorts({ openSocket });
 * const found = await collectCheckpointEvents([relay.url], { run: 'tea', minRound: 4 }, ports);
 * await relay.close();
 * latestCheckpoint(found.events); // => undefined
 * ```
 */
export async function discoverCheckpoints(
  relays: readonly string[],
  { run, worker, minRound, since, anyKey, idleMs, maxMs }: CheckpointsQuery,
  ports: ReadingPorts,
): Promise<CheckpointsFound> {
  const collection = await collect(
    relays,
    {
      operation: 'collect-checkpoints',
      idleMs,
      maxMs,
      filter: checkpoint.filter({}, since === undefined ? {} : { since }),
      wanted: {
        run,
        nowSeconds: Math.floor(ports.clock.now() / 1000),
        isOf,
        anyKey,
        matches: (tags) =>
          (minRound === undefined || tags.round >= minRound) &&
          (worker === undefined || tags.worker === worker),
      },
      enough: (_, isCaughtUp) => (isCaughtUp ? 'caught-up' : undefined),
    },
    ports,
  );
  return { ...collection, run };
}

/**
 * The one that claims the highest next round, the latest of those: no reason to trust it.
 *
 * @example
 * ```ts
 * import { latestCheckpoint } from 'nostrain/python';
 *
 * latestCheckpoint([]); // => undefined
 * ```
 */
export function latestOf(
  events: readonly Kept<CheckpointEvent>[],
): Kept<CheckpointEvent> | undefined {
  return [...events].sort(
    (a, b) =>
      b.read.said.nextRound - a.read.said.nextRound ||
      b.read.said.round - a.read.said.round ||
      b.createdAt - a.createdAt ||
      compareCodePoints(b.eventId, a.eventId),
  )[0];
}

const isOf = (read: ReferenceEvent): read is CheckpointEvent => read.type === 'checkpoint';
