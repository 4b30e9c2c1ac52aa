/**
 * Reads one subscription at one relay until there are enough events, silence, or no time left. Reconnects after a lost
 * connection; events received before the loss still count.
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

/** Ports of the `collect…` functions, as `createRelayPorts` returns them. */
export interface ReadingPorts {
  /** Opens a relay set of this relay only, with `maxAttempts` attempts; the caller closes it. */
  open(relay: string): RelaySet;
  readonly clock: Clock;
  /** Maximum number of connection attempts. */
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  /** The zstd codec; without it zstd payloads are refused. */
  readonly zstd?: Zstd | undefined;
}

/** Options of `createRelayPorts`. */
export interface RelayPortsOptions {
  /** Opens WebSockets; on Node pass `openSocket` of `nostrain/node`. */
  readonly openSocket: OpenSocket;
  /** Clock; default the system's. */
  readonly clock?: Clock;
  /** Retries of connecting and publishing; default one attempt. */
  readonly retry?: RetryPolicy;
  /** Time limit of a connection attempt and of each answer to an event; default 10 s. */
  readonly timeoutMs?: number;
  /** Aborts all operations with its reason. */
  readonly signal?: AbortSignal;
  /** The zstd codec, without which zstd payloads are refused; on Node `openZstd` of `nostrain/python/node` loads it. */
  readonly zstd?: Zstd | undefined;
  /** For ids and signatures; default pure JavaScript; on Node pass `nativeCrypto`. */
  readonly crypto?: EventCrypto;
}

/** Ports that can also open several relays as one set. */
export interface RelayPorts extends ReadingPorts {
  openAll(relays: readonly string[]): RelaySet;
}

const ONCE: RetryPolicy = { maxAttempts: 1, initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' };

/**
 * Maximum number of invalid events per minute from a relay. Higher than during training, since relays that do not check
 * signatures forward everything.
 */
const FAULTS_PER_MINUTE = 10_000;

/**
 * Creates the ports of the `publish…` and `collect…` functions.
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

/** What to read from a relay, and the handlers of its events. */
export interface RelayReading {
  readonly operation: RelayOperation;
  readonly filter: Filter;
  /** Ends after this time without a message from the relay. */
  readonly idleMs: number;
  /** Ends this long after the first connection, however much the relay sends. */
  readonly maxMs: number;
  /** Called once per verified event that matches the filter; returns whether the event is requested. */
  onEvent(event: SignedEvent): boolean;
  /** Called when a requested event arrives again. */
  onRepeated(): void;
  onRefused(reason: RejectReason): void;
  /** Returns why no more events are needed, if so; called after each event and after all stored events. */
  enough(isCaughtUp: boolean): string | undefined;
}

/** The end of a successful reading. */
export interface ReadEnd extends RelayAttempts {
  /** `idle-timeout`, `relay-closed`, `deadline`, or the value of `enough`. */
  readonly reason: string;
  readonly notices: readonly string[];
}

type End = { readonly reason: string } | { readonly failed: string };

/** Longest timer, which is practically no deadline: most platforms do not support much longer timers. */
const LONGEST_MS = 86_400_000;
/** Number of event ids remembered to detect repeats. */
const REMEMBERED = 32_768;

/** Reads from one relay. Rejects only with `signal.reason`. */
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

/** Progress of a reading. Events that arrive after its end are ignored, although the connection is still open. */
class Progress {
  readonly #reading: RelayReading;
  readonly #onEnd: () => void;
  /** Ids of requested events, each with the number of the request that returned it last. */
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
    // after a reconnect the relay sends everything again
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
