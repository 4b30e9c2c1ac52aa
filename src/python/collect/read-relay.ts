/**
 * One subscription at one relay, until there is enough, silence, or no time left. A lost connection is tried again;
 * what came before the loss still counts.
 */
import {
  type Clock,
  createNotifier,
  notifiedOrDeadline,
  type RetryPolicy,
  systemClock,
} from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { EventCrypto } from '../../network/event-crypto.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { defaultQuota } from '../../network/transport/rates.ts';
import { createRelaySet, type RelaySet } from '../../network/transport/relay-set.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { OpenSocket } from '../../network/transport/socket.ts';
import type { RejectReason } from '../../run/contribution.ts';
import type { Zstd } from '../codec/container.ts';
import type { RelayAttempts, RelayFailure, RelayOperation } from '../wire/retries.ts';

/** What collecting needs of a machine, as `createRelayPorts` gives it. */
export interface ReadingPorts {
  /** A relay set of this relay alone, with the same number of attempts; it is closed after use. */
  open(relay: string): RelaySet;
  readonly clock: Clock;
  /** Connections to try in all. */
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  /** Without it payloads compressed with zstd are refused. */
  readonly zstd?: Zstd | undefined;
}

/** What `createRelayPorts` takes. */
export interface RelayPortsOptions {
  /** On Node `openSocket` of `nostrain/node`. */
  readonly openSocket: OpenSocket;
  /** Default the system's. */
  readonly clock?: Clock;
  /** For connecting and publishing; default one attempt. */
  readonly retry?: RetryPolicy;
  /** For each connection, and for each answer to an event; default 10 s. */
  readonly timeoutMs?: number;
  /** Ends everything with its reason. */
  readonly signal?: AbortSignal;
  /** Reads zstd payloads, which are refused without it; on Node `openZstd` of `nostrain/node` gives it. */
  readonly zstd?: Zstd | undefined;
  /** For ids and signatures; default pure JavaScript, on Node give `nativeCrypto`. */
  readonly crypto?: EventCrypto;
}

/** Ports with which several relays can be used as one set, too. */
export interface RelayPorts extends ReadingPorts {
  openAll(relays: readonly string[]): RelaySet;
}

const ONCE: RetryPolicy = { maxAttempts: 1, initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' };

/**
 * Badly made events that a relay may pass on in a minute: more than while training, since relays that check no
 * signatures pass on what strangers send.
 */
const FAULTS_PER_MINUTE = 10_000;

/**
 * Ports for every `publish…` and `collect…` function.
 *
 * @example
 * ```ts
 * import { collectHeartbeatEvents, createRelayPorts } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const ports = createRelayPorts({ openSocket, timeoutMs: 5000 });
 * const collected = await collectHeartbeatEvents([relay.url], { run: 'tea' }, ports);
 * await relay.close();
 * collected.events; // => []
 * ```
 */
export function createRelayPorts(options: RelayPortsOptions): RelayPorts {
  const { openSocket, crypto, zstd, clock = systemClock, retry = ONCE, timeoutMs } = options;
  const openAll = (relays: readonly string[]): RelaySet =>
    createRelaySet(relays, {
      openSocket,
      clock,
      retry,
      ...(crypto === undefined ? {} : { crypto }),
      ...(timeoutMs === undefined ? {} : { openTimeoutMs: timeoutMs, publishTimeoutMs: timeoutMs }),
      quota: { ...defaultQuota, faultsPerMinute: FAULTS_PER_MINUTE },
    });
  return {
    clock,
    zstd,
    openAll,
    maxAttempts: retry.maxAttempts,
    open: (relay) => openAll([relay]),
    signal: options.signal ?? new AbortController().signal,
  };
}

export interface RelayReading {
  readonly operation: RelayOperation;
  readonly filter: Filter;
  /** Ends after this long without any message from the relay. */
  readonly idleMs: number;
  /** Ends so long after the first connection, however much the relay sends. */
  readonly maxMs: number;
  /** A verified event that the filter asks for, once; true when it is one of those wanted. */
  onEvent(event: SignedEvent): boolean;
  /** A wanted event came again. */
  onRepeated(): void;
  onRefused(reason: RejectReason): void;
  /** Why no more is needed, if so; asked after each event, and once all that was stored has come. */
  enough(isCaughtUp: boolean): string | undefined;
}

/** How a reading ended that the relay let through. */
export interface ReadEnd extends RelayAttempts {
  /** `idle-timeout`, `relay-closed`, `deadline`, or what `enough` returned. */
  readonly reason: string;
  readonly notices: readonly string[];
}

type End = { readonly reason: string } | { readonly failed: string };

/** As good as no deadline: timers of most platforms take no longer ones. */
const LONGEST_MS = 86_400_000;
/** Ids by which repeats are known. */
const REMEMBERED = 32_768;

/** Reads from one relay; rejects only with `signal.reason`. */
export async function readRelay(
  relay: string,
  reading: RelayReading,
  { open, clock, maxAttempts, signal }: ReadingPorts,
): Promise<ReadEnd | RelayFailure> {
  const relays = open(relay);
  const changed = createNotifier();
  const progress = new Progress(reading, () => changed.notify());
  let untilMs = Number.POSITIVE_INFINITY;
  const status = () => relays.status()[0]!;
  const handlers = {
    onEvent: (event: SignedEvent) => progress.take(event),
    onRepeated: (id: string) => progress.repeat(id),
    onRefused(reason: RejectReason) {
      if (!progress.ended) reading.onRefused(reason);
    },
    onQueried() {
      progress.requests++;
      untilMs = Math.min(untilMs, clock.now() + reading.maxMs);
      changed.notify();
    },
    onCaughtUp: () => progress.catchUp(),
    onLost(_: string, message: string) {
      if (status().state === 'open') progress.end({ reason: 'relay-closed' });
      else if (++progress.losses >= maxAttempts) progress.end({ failed: message });
    },
  };
  const subscription = relays.subscribe([reading.filter], handlers, { recheck: false });
  try {
    while (!progress.ended) {
      const { state, heardMs } = status();
      const idleAtMs = state === 'open' ? heardMs + reading.idleMs : Number.POSITIVE_INFINITY;
      const nowMs = clock.now();
      if (nowMs >= untilMs) progress.end({ reason: 'deadline' });
      else if (nowMs >= idleAtMs) progress.end({ reason: 'idle-timeout' });
      else {
        const dueMs = Math.min(untilMs, idleAtMs, nowMs + LONGEST_MS);
        await notifiedOrDeadline(changed, clock, dueMs, signal);
      }
    }
    const { attempts, delaysMs, notices } = status();
    const took = {
      relay: withoutSecrets(relay),
      attempts,
      delaysMs: delaysMs.slice(0, attempts - 1),
    };
    return 'reason' in progress.ended
      ? { ...took, reason: progress.ended.reason, notices }
      : { ...took, operation: reading.operation, message: progress.ended.failed };
  } finally {
    subscription.close();
    await relays.close();
  }
}

/** How far a reading has come. What arrives after its end is too late, though the connection is still open. */
class Progress {
  readonly #reading: RelayReading;
  readonly #onEnd: () => void;
  /** Ids of wanted events, and in which asking each came last. */
  readonly #heard = new Recent<number>(REMEMBERED);
  #isCaughtUp = false;
  requests = 0;
  losses = 0;
  ended: End | undefined;

  constructor(reading: RelayReading, onEnd: () => void) {
    this.#reading = reading;
    this.#onEnd = onEnd;
  }

  end(end: End): void {
    this.ended ??= end;
    this.#onEnd();
  }

  take(event: SignedEvent): void {
    if (this.ended || !this.#reading.onEvent(event)) return;
    this.#heard.set(event.id, this.requests);
    this.#judge();
  }

  repeat(id: string): void {
    const before = this.#heard.get(id);
    if (this.ended || before === undefined) return;
    this.#heard.set(id, this.requests);
    // after a reconnect everything is sent once more
    if (before === this.requests) this.#reading.onRepeated();
  }

  catchUp(): void {
    this.#isCaughtUp = true;
    this.#judge();
  }

  #judge(): void {
    const reason = this.#reading.enough(this.#isCaughtUp);
    if (reason !== undefined) this.end({ reason });
  }
}
