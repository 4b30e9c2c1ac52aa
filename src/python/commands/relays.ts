/**
 * Reads the relays that a command of the Python reference names. Also finds workers of the run on our own wire profile
 * (nostrain/1), so that the command can report such a run instead of an empty one.
 */
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { RelayError, safeLine } from '../../base/errors.ts';
import type { SignedEvent } from '../../network/event.ts';
import { parseRelayUrls, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { judgeClaim } from '../../network/wire/judged.ts';
import { toPresence } from '../../network/wire/native-profile.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { type Contribution, isStale } from '../../run/contribution.ts';
import type { WorkerId } from '../../run/ids.ts';
import { exactRetry } from '../../terminal/connection.ts';
import type { Patience } from '../collect/collect.ts';
import type { WorkersQuery } from '../collect/queries.ts';
import { createRelayPorts, type RelayPorts, readRelay } from '../collect/read-relay.ts';
import { openZstd } from '../node/zstd.ts';
import type { RelayFailure } from '../wire/retries.ts';
import type { CommandPorts, ListeningFlags, RelayFlags } from './flags.ts';

/** Returns the named relays without repeats. */
export const relaysOf = ({ relay }: RelayFlags): readonly string[] => parseRelayUrls(relay);

export const patienceOf = ({ idleTimeout, maxWait }: ListeningFlags): Patience => ({
  idleMs: idleTimeout * 1000,
  maxMs: maxWait === undefined ? undefined : maxWait * 1000,
});

/** Creates the ports for publishing and collecting. */
export const relayPorts = async (flags: RelayFlags, ports: CommandPorts): Promise<RelayPorts> =>
  createRelayPorts({
    ...ports,
    crypto: nativeCrypto,
    retry: exactRetry(flags, 'settings/value'),
    timeoutMs: flags.timeout * 1000,
    zstd: await openZstd(),
  });

type Failures = { readonly failed: readonly RelayFailure[] };

/** Reads from the named relays. Throws a RelayError if the only one failed; with several, the result lists failures. */
export async function readRelays<Query, Collected extends Failures>(
  collect: (relays: readonly string[], query: Query, ports: RelayPorts) => Promise<Collected>,
  query: Query,
  flags: RelayFlags,
  ports: CommandPorts,
): Promise<Collected> {
  const relays = relaysOf(flags);
  const collected = await collect(relays, query, await relayPorts(flags, ports));
  const [failure] = collected.failed;
  if (relays.length > 1 || failure === undefined) return collected;
  const { operation, relay, attempts, message } = failure;
  const tries = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  const why = `${operation} failed at ${relay} after ${tries}: ${safeLine(message)}`;
  throw new RelayError('relay/unreachable', why, {
    hint: 'check the address and that a relay listens there, or retry with --relay-retries N',
  });
}

/** A worker of a run on nostrain/1, by its newest event. */
export interface NativeWorker extends Pick<Contribution, 'worker' | 'round' | 'createdAt'> {
  /** Whether it left, or missed too many of its own intervals. */
  readonly isStale: boolean;
}

type WorkerSearch = Omit<WorkersQuery, 'since'>;

/** Maximum number of events queried, enough to list the workers of a run. */
const MOST_EVENTS = 500;
/** Assumed seconds between heartbeats of a worker that is known only by a contribution. */
const USUAL_INTERVAL = 60;
/** Default maximum time of the query for native workers. */
const MOST_MS = 60_000;

/** Queries the relays that did not fail for workers of a run on nostrain/1; returns them by key. */
export async function nativeWorkers(
  { run, round = 0, maxMissed = 3, idleMs = 2000, maxMs = MOST_MS }: WorkerSearch,
  { failed }: Failures,
  flags: RelayFlags,
  ports: CommandPorts,
): Promise<readonly NativeWorker[]> {
  const nowSeconds = Math.floor(ports.clock.now() / 1000);
  const newest = new Map<WorkerId, NativeWorker>();
  const reading = {
    operation: 'collect-heartbeats' as const,
    idleMs,
    maxMs,
    filter: { kinds: [presence.kind, manifest.kind], '#s': [run], limit: MOST_EVENTS },
    onEvent(event: SignedEvent) {
      const observed = readWorker(event, { run, nowSeconds, maxMissed });
      if (observed === undefined) return false;
      const known = newest.get(observed.worker)?.createdAt ?? -1;
      if (known < observed.createdAt) newest.set(observed.worker, observed);
      return true;
    },
    onRepeated: () => undefined,
    onRefused: () => undefined,
    enough: (isCaughtUp: boolean) => (isCaughtUp ? 'caught-up' : undefined),
  };
  const dead = new Set(failed.map(({ relay }) => relay));
  const relays = relaysOf(flags).filter((relay) => !dead.has(withoutSecrets(relay)));
  const reader = await relayPorts(flags, ports);
  await Promise.all(relays.map((relay) => readRelay(relay, reading, reader)));
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
  const { pubkey: worker, created_at: createdAt } = event;
  if (judgeClaim(event, { run, worker }, context) !== undefined) return undefined;
  const beat = { leaving: false, createdAt, intervalSeconds: USUAL_INTERVAL };
  return { worker, round, createdAt, isStale: isStale(beat, nowSeconds, maxMissed) };
}

/** Throws a RelayError if nothing was collected because the run uses nostrain/1, which the command does not read. */
export async function assertNotNative(
  command: string,
  collected: Failures & { readonly events: readonly unknown[] },
  flags: ListeningFlags,
  ports: CommandPorts,
): Promise<void> {
  if (collected.events.length > 0) return;
  const { run } = flags;
  const native = await nativeWorkers({ run, ...patienceOf(flags) }, collected, flags, ports);
  if (native.length === 0) return;
  const workers = native.length === 1 ? '1 worker' : `${native.length} workers`;
  const where = `run ${run} has ${workers} on the wire profile nostrain/1`;
  throw new RelayError(
    'relay/other-wire',
    `${where}; ${command} reads nostrain/0, the profile of the Python reference`,
    { hint: `list its workers with discover-workers --run ${run}` },
  );
}
