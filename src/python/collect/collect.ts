/** Events of one kind and run from several relays, each read on its own, then put together. */

import type { Filter } from '../../network/transport/filter.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { RejectReason } from '../../run/contribution.ts';
import type { ReferenceEvent } from '../wire/reference-event.ts';
import type { RelayAttempts, RelayFailure, RelayOperation } from '../wire/retry-telemetry.ts';
import { EventCollector, type Kept, merged, type Wanted } from './event-collector.ts';
import { type ReadingPorts, readRelay } from './read-relay.ts';

/** How long relays are listened to. */
export interface Patience {
  /** Without a message from the relay; default 2 s. */
  readonly idleMs?: number | undefined;
  /** In all, from the first connection on; default a minute, or 30 times `idleMs` if that is longer. */
  readonly maxMs?: number | undefined;
}

const IDLE_MS = 2000;
const MAX_MS = 60_000;
const MAX_IDLES = 30;

export interface Request<E extends ReferenceEvent> extends Patience {
  readonly operation: RelayOperation;
  readonly filter: Filter;
  readonly wanted: Wanted<E>;
  /** Whether one that matches is out of date. */
  isStale?(kept: Kept<E>): boolean;
  /** Why so many are enough, if they are. */
  enough(count: number, isCaughtUp: boolean): string | undefined;
}

/** What one relay brought. */
export interface CollectedAt<E extends ReferenceEvent> extends RelayAttempts {
  readonly events: readonly Kept<E>[];
  readonly duplicates: number;
  readonly invalid: ReadonlyMap<RejectReason, number>;
  readonly stale: readonly Kept<E>[];
  readonly notices: readonly string[];
  /** Why it ended. */
  readonly reason: string;
}

/** What all of them brought. */
export interface Collection<E extends ReferenceEvent> {
  readonly relays: readonly string[];
  readonly at: readonly CollectedAt<E>[];
  readonly failed: readonly RelayFailure[];
  readonly events: readonly Kept<E>[];
  readonly duplicates: number;
  readonly invalid: ReadonlyMap<RejectReason, number>;
  readonly stale: readonly Kept<E>[];
  readonly notices: readonly string[];
}

/** Stale events remembered by name; beyond, they are not even counted. */
const MAX_STALE = 10_000;

/** Reads all relays at once; one that fails is told of, the others count. */
export async function collect<E extends ReferenceEvent>(
  relays: readonly string[],
  request: Request<E>,
  ports: ReadingPorts,
): Promise<Collection<E>> {
  const answers = await Promise.all(relays.map((relay) => collectAt(relay, request, ports)));
  const at = answers.flatMap((answer) => (answer.ok ? [answer.collected] : []));
  const failed = answers.flatMap((answer) => (answer.ok ? [] : [answer.failure]));
  const { events, duplicates } = merged(at.map((each) => each.events));
  return {
    relays: relays.map(withoutSecrets),
    at,
    failed,
    events,
    duplicates: at.reduce((sum, each) => sum + each.duplicates, duplicates),
    invalid: total(at.map(({ invalid }) => invalid)),
    stale: at.flatMap(({ stale }) => stale),
    notices: at.flatMap(({ notices }) => notices),
  };
}

type Answer<E extends ReferenceEvent> =
  | { readonly ok: true; readonly collected: CollectedAt<E> }
  | { readonly ok: false; readonly failure: RelayFailure };

async function collectAt<E extends ReferenceEvent>(
  relay: string,
  { operation, filter, wanted, idleMs = IDLE_MS, maxMs, ...request }: Request<E>,
  ports: ReadingPorts,
): Promise<Answer<E>> {
  const collector = new EventCollector(wanted);
  const stale: Kept<E>[] = [];
  const end = await readRelay(
    relay,
    {
      operation,
      filter,
      idleMs,
      maxMs: maxMs ?? Math.max(MAX_MS, MAX_IDLES * idleMs),
      onEvent(event) {
        const kept = collector.read(event);
        if (!kept) return false;
        if (request.isStale?.(kept)) {
          if (stale.length < MAX_STALE) stale.push(kept);
          return false;
        }
        collector.keep(kept);
        return true;
      },
      onRepeated: () => collector.repeat(),
      onRefused: (reason) => collector.refuse(reason),
      enough: (isCaughtUp) =>
        collector.isFull ? 'too-much' : request.enough(collector.size, isCaughtUp),
    },
    ports,
  );
  if (!end.ok) return end;
  const { took, notices, reason } = end;
  const { duplicates, invalid } = collector;
  const events = collector.inOrder();
  return { ok: true, collected: { ...took, events, duplicates, invalid, stale, notices, reason } };
}

function total(counts: readonly ReadonlyMap<RejectReason, number>[]): Map<RejectReason, number> {
  const all = new Map<RejectReason, number>();
  for (const [reason, count] of counts.flatMap((each) => [...each])) {
    all.set(reason, (all.get(reason) ?? 0) + count);
  }
  return all;
}
