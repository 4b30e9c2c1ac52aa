/** What publishing to relays and reading from them, one at a time, needs: put together from the few things a caller brings. */
import { type Clock, systemClock } from '../../base/clock.ts';
import type { RetryPolicy } from '../../base/retry.ts';
import type { EventCrypto } from '../../network/event-crypto.ts';
import { defaultQuota } from '../../network/transport/quota.ts';
import { createRelaySet, type RelaySet } from '../../network/transport/relay-set.ts';
import type { OpenSocket } from '../../network/transport/socket.ts';
import type { Zstd } from '../codec/zstd.ts';
import type { ReadingPorts } from './read-relay.ts';

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
 * Badly made events that a relay may pass on in a minute. More than where a run trains: a relay that checks no signatures
 * passes on what strangers send, and collections end by themselves.
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
 * const found = await collectHeartbeatEvents([relay.url], { run: 'tea' }, ports);
 * await relay.close();
 * found.events; // => []
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
