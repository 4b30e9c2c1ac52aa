/**
 * Queries several relays and returns each event once. A relay that sends no EOSE is given only a little more time than
 * the others.
 */

import { type Clock, createNotifier, notifiedOrDeadline, onAbort } from '../../base/async.ts';
import type { SignedEvent } from '../event.ts';
import type { ConnectionState } from './connection.ts';
import type { Filter } from './frames.ts';
import type { SubscribeOptions, SubscriptionHandlers } from './subscription.ts';

export interface QueryOptions extends Pick<SubscribeOptions, 'only' | 'maxPerAuthor'> {
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Receives each event at once; returning `true` ends the query. */
  onEvent?(event: SignedEvent): unknown;
  readonly onRefused?: SubscriptionHandlers['onRefused'];
}

export interface QueryResult {
  /** Events in order of arrival; empty if `onEvent` is set. */
  readonly events: readonly SignedEvent[];
  readonly answered: readonly string[];
  /** Connected relays that sent no EOSE and may have more; empty if `onEvent` ended the query. */
  readonly unanswered: readonly string[];
}

export interface QueriedRelays {
  /** Aborts when the relay set closes: queries then end with what they have. */
  readonly closing?: AbortSignal;
  /** Relays that sent no EOSE while others did; later queries do not wait for them. */
  readonly silent?: Set<string>;
  /** Called with the relays that a query still waits for, once it takes longer. */
  onWaiting?(relays: readonly string[]): void;
  subscribe(
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    options: SubscribeOptions,
  ): { close(): void };
  status(): readonly {
    readonly relay: string;
    readonly state: ConnectionState;
    readonly failures: number;
  }[];
}

/** Extra time for the remaining relays: once most have finished, and once some have. */
const GRACE_MOST_MS = 2000;
const GRACE_SOME_MS = 10_000;
const GRACE_SILENT_MS = 200;
const TELL_MS = 1500;

/** Runs one query. Rejects only with `signal.reason`. */
export async function queryRelays(
  filters: readonly Filter[],
  { waitMs, signal, onEvent, onRefused, ...which }: QueryOptions,
  relays: QueriedRelays,
  clock: Clock,
): Promise<QueryResult> {
  signal?.throwIfAborted();
  const events: SignedEvent[] = [];
  const through = new Set<string>();
  const lost = new Set<string>();
  const changed = createNotifier();
  const untilMs = clock.now() + waitMs;
  let isEnough = false;
  let tellMs = relays.onWaiting ? clock.now() + TELL_MS : Number.POSITIVE_INFINITY;
  let newestMs = clock.now();
  const note = (act: () => void) => {
    act();
    newestMs = clock.now();
    changed.notify();
  };
  const handlers: SubscriptionHandlers = {
    onEvent(event) {
      if (isEnough) return;
      if (onEvent === undefined) events.push(event);
      else isEnough = onEvent(event) === true;
      newestMs = clock.now();
      if (isEnough) changed.notify();
    },
    onQueried: (relay) => void lost.delete(relay),
    onCaughtUp: (relay) =>
      note(() => {
        through.add(relay);
        relays.silent?.delete(relay);
      }),
    onLost: (relay) => note(() => lost.add(relay)),
    ...(onRefused && { onRefused }),
  };
  const waitedFor = () =>
    relays
      .status()
      .filter(({ relay }) => which.only?.includes(relay) !== false)
      .filter(({ relay }) => !through.has(relay) && !lost.has(relay))
      .filter(
        ({ state, failures }) => state === 'open' || (state === 'connecting' && failures === 0),
      )
      .map(({ relay }) => relay);
  const dueMs = () => {
    if (relays.closing?.aborted) return 0;
    if (through.size === 0) return untilMs;
    const left = waitedFor();
    if (left.length === 0) return 0;
    const areSilent = left.every((relay) => relays.silent?.has(relay));
    const usualMs = through.size > left.length ? GRACE_MOST_MS : GRACE_SOME_MS;
    const graceMs = areSilent ? GRACE_SILENT_MS : usualMs;
    return Math.min(untilMs, newestMs + graceMs);
  };
  const release = relays.closing && onAbort(relays.closing, () => changed.notify());
  const subscription = relays.subscribe(filters, handlers, { ...which, recheck: false });
  try {
    while (!isEnough && clock.now() < dueMs()) {
      const isDue = clock.now() >= tellMs;
      if (isDue) {
        tellMs = Number.POSITIVE_INFINITY;
        relays.onWaiting?.(waitedFor());
      }
      await notifiedOrDeadline(changed, clock, Math.min(tellMs, dueMs()), signal ?? NEVER);
    }
  } finally {
    subscription.close();
    release?.();
  }
  const unanswered = isEnough ? [] : waitedFor();
  if (through.size > 0) for (const relay of unanswered) relays.silent?.add(relay);
  return { events, answered: [...through], unanswered };
}

const NEVER = new AbortController().signal;
