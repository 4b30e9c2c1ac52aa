/**
 * What relays have of a run on the wire of this program (nostrain/1), for commands that read the events of the Python reference
 * (nostrain/0): a run that speaks the other wire must not look like no run at all.
 */
import { manifest } from '../../../../kinds/manifest.ts';
import { presence } from '../../../../kinds/presence.ts';
import { RelayError } from '../../../base/errors.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { withoutSecrets } from '../../../network/transport/relay-urls.ts';
import { judgeClaim } from '../../../network/wire/judged.ts';
import { toPresence } from '../../../network/wire/presences.ts';
import { isStale } from '../../../run/heartbeat.ts';
import type { WorkerId } from '../../../run/ids.ts';
import type { Patience } from '../../collect/collect.ts';
import { type ReadingPorts, readRelay } from '../../collect/read-relay.ts';
import type { RelayFailure } from '../../wire/retry-telemetry.ts';
import { type ListeningFlags, patienceOf } from './listening-flags.ts';
import { type CommandPorts, type RelayFlags, relayPorts, relaysOf } from './relay-flags.ts';

export interface NativeWorker {
  readonly worker: WorkerId;
  /** The index, from 0. */
  readonly round: number;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  /** It left, or missed too many of its own intervals. */
  readonly isStale: boolean;
}

interface Asked extends Patience {
  readonly run: string;
  readonly round?: number | undefined;
  readonly maxMissed?: number | undefined;
}

/** So many events of a run tell who is in it. */
const MOST_EVENTS = 500;
/** Of a worker that is known by a contribution alone. */
const USUAL_INTERVAL = 60;
const MOST_MS = 60_000;

/** Workers of a run that speaks nostrain/1, by key, each with the newest it said; relays that fail say nothing. */
export async function nativeWorkers(
  relays: readonly string[],
  { run, round = 0, maxMissed = 3, idleMs = 2000, maxMs = MOST_MS }: Asked,
  ports: ReadingPorts,
): Promise<readonly NativeWorker[]> {
  const nowSeconds = Math.floor(ports.clock.now() / 1000);
  const newest = new Map<WorkerId, NativeWorker>();
  const reading = {
    operation: 'collect-heartbeats' as const,
    idleMs,
    maxMs,
    filter: { kinds: [presence.kind, manifest.kind], '#s': [run], limit: MOST_EVENTS },
    onEvent(event: SignedEvent) {
      const said = readWorker(event, { run, nowSeconds, maxMissed });
      if (said === undefined) return false;
      if ((newest.get(said.worker)?.createdAt ?? -1) < said.createdAt)
        newest.set(said.worker, said);
      return true;
    },
    onRepeated: () => undefined,
    onRefused: () => undefined,
    enough: (isCaughtUp: boolean) => (isCaughtUp ? 'caught-up' : undefined),
  };
  await Promise.all(relays.map((relay) => readRelay(relay, reading, ports)));
  return [...newest.values()]
    .filter((each) => each.round >= round)
    .sort((a, b) => (a.worker < b.worker ? -1 : 1));
}

function readWorker(
  event: SignedEvent,
  context: { readonly run: string; readonly nowSeconds: number; readonly maxMissed: number },
): NativeWorker | undefined {
  const { nowSeconds, maxMissed } = context;
  if (event.kind === presence.kind) {
    const judged = toPresence(event, context);
    if (!judged.ok) return undefined;
    const { worker, round, createdAt } = judged.value;
    return { worker, round, createdAt, isStale: isStale(judged.value, nowSeconds, maxMissed) };
  }
  const parsed = manifest.parse(event);
  if (!parsed.ok) return undefined;
  const { run, round } = parsed.value;
  const worker = event.pubkey;
  if (judgeClaim(event, { run, worker }, context) !== undefined) return undefined;
  const createdAt = event.created_at;
  const beat = { leaving: false, createdAt, intervalSeconds: USUAL_INTERVAL };
  return { worker, round, createdAt, isStale: isStale(beat, nowSeconds, maxMissed) };
}

/** The relays named that did not fail. */
export function relaysHeard(
  flags: RelayFlags,
  { failed }: { readonly failed: readonly RelayFailure[] },
): readonly string[] {
  const dead = new Set(failed.map(({ relay }) => relay));
  return relaysOf(flags).filter((relay) => !dead.has(withoutSecrets(relay)));
}

/** Throws where nothing was found because the run is on the wire that the command does not read. */
export async function assertNotNative(
  command: string,
  found: { readonly events: readonly unknown[]; readonly failed: readonly RelayFailure[] },
  flags: ListeningFlags,
  ports: CommandPorts,
): Promise<void> {
  if (found.events.length > 0) return;
  const asked = { run: flags.run, ...patienceOf(flags) };
  const there = await nativeWorkers(
    relaysHeard(flags, found),
    asked,
    await relayPorts(flags, ports),
  );
  if (there.length === 0) return;
  const workers = there.length === 1 ? '1 worker' : `${there.length} workers`;
  throw new RelayError(
    'relay/other-wire',
    `run ${flags.run} is there with ${workers}, on the wire nostrain/1; ${command} reads nostrain/0, the wire of the Python reference`,
    { hint: `list its workers with discover-workers --run ${flags.run}` },
  );
}
