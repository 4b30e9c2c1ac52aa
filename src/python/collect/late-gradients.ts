/** Gradients of rounds that are over, as relays still have them. */
import { gradient } from '../../../kinds/gradient.ts';
import type { EventOf, ReferenceEvent } from '../wire/reference-event.ts';
import { type Collection, collect, type Patience } from './collect.ts';
import type { ReadingPorts } from './read-relay.ts';

/** Which gradients `collectLateGradientEvents` asks for. */
export interface LateGradientsQuery extends Patience {
  readonly run: string;
  /** Only gradients of rounds before this one. */
  readonly currentRound: number;
  /** Unix seconds; older events are not asked for. */
  readonly since?: number | undefined;
}

/** What `collectLateGradientEvents` gives. */
export interface LateGradientsFound extends Collection<EventOf<'gradient'>> {
  readonly run: string;
  readonly currentRound: number;
}

/** So much silence is enough: nobody waits for what is late. */
const IDLE_MS = 200;

/**
 * Gradients of a run's earlier rounds, verified, the newest of each worker and round, sorted by round and worker. Without `since`
 * that is also the history of the run. Ends once relays have sent what they stored, or after 0.2 s of silence. A relay that failed
 * is told of in `failed`: never rejects but with `ports.signal.reason`, or a ConfigError for an address that is none.
 *
 * @example
 * ```ts
 * import { collectLateGradientEvents, createRelayPorts } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const ports = createRelayPorts({ openSocket });
 * const found = await collectLateGradientEvents([relay.url], { run: 'tea', currentRound: 3 }, ports);
 * await relay.close();
 * found.events; // => []
 * ```
 */
export async function collectLateGradients(
  relays: readonly string[],
  { run, currentRound, since, idleMs = IDLE_MS, maxMs }: LateGradientsQuery,
  ports: ReadingPorts,
): Promise<LateGradientsFound> {
  const found = await collect(
    relays,
    {
      operation: 'collect-late-gradients',
      idleMs,
      maxMs,
      filter: gradient.filter({}, since === undefined ? {} : { since }),
      wanted: {
        run,
        nowSeconds: Math.floor(ports.clock.now() / 1000),
        isOf,
        zstd: ports.zstd,
        matches: (tags) => tags.round < currentRound,
      },
      enough: (_, isCaughtUp) => (isCaughtUp ? 'caught-up' : undefined),
    },
    ports,
  );
  const events = [...found.events].sort((a, b) => a.read.said.round - b.read.said.round);
  return { ...found, events, run, currentRound };
}

const isOf = (read: ReferenceEvent): read is EventOf<'gradient'> => read.type === 'gradient';
