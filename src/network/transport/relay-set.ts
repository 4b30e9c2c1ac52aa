/**
 * A set of relays used as one: publishes to all, reads from all or some; each event is verified and handed over once.
 */
import { anyTrue, defaultRetry, type RetryPolicy, within } from '../../base/async.ts';
import { RelayError } from '../../base/errors.ts';
import type { SignedEvent } from '../event.ts';
import { type EventCrypto, pureCrypto } from '../event-crypto.ts';
import { MAX_WORK_BITS } from '../proof-of-work.ts';
import { type ConnectionOptions, RelayConnection } from './connection.ts';
import type { Filter } from './frames.ts';
import { Handed, Inbox } from './inbox.ts';
import { createParcel, Outbox, type OutboxOptions, type OutboxStatus } from './outbox.ts';
import type { PublishOutcome, SendOptions } from './publish-outcome.ts';
import { type QueryOptions, type QueryResult, queryRelays } from './query.ts';
import { defaultQuota } from './rates.ts';
import { type ReaderCounts, RelayReader } from './relay-reader.ts';
import { namesOf, parseRelayUrls } from './relay-urls.ts';
import type { SubscribeOptions, SubscriptionHandlers } from './subscription.ts';

/** Options of `createRelaySet`. */
export interface RelaySetOptions
  extends Pick<ConnectionOptions, 'openSocket' | 'clock'>,
    Partial<Omit<ConnectionOptions, 'openSocket' | 'clock' | 'connectTimeoutMs'>>,
    Partial<Omit<OutboxOptions, 'clock' | 'retry' | 'random'>> {
  /** Computes ids and signatures; default pure JavaScript. On Node, pass `nativeCrypto`. */
  readonly crypto?: EventCrypto;
  /** Reports whether a relay supports NIP-77, by its NIP-11 document; default false. */
  readonly reconciles?: (relay: string) => boolean;
  /** Timeout of `ready` and of each connection attempt; default 10 s. */
  readonly openTimeoutMs?: number;
  /** Called with relays that a query waits for, once for each relay. */
  readonly onWaiting?: ((relays: readonly string[]) => void) | undefined;
  /** Selects the relays to read from; the others are connected to only while they are used. Default all. */
  readonly readRelays?: (relays: readonly string[]) => readonly string[];
}

/** An open subscription to a relay set. */
export interface Subscription {
  /** True once every reachable relay has sent its stored events. */
  readonly caughtUp: boolean;
  /** Requests everything again, also on connections that stayed open; hands over only events that are new. */
  renew(): void;
  close(): void;
}

/** Status of one relay of a set. */
export interface RelayStatus
  extends Readonly<ReaderCounts>,
    Readonly<RelayConnection['counts']>,
    Readonly<Pick<RelayConnection, 'state' | 'failures' | 'lastError' | 'lastNotice'>>,
    OutboxStatus {
  readonly relay: string;
  readonly notices: readonly string[];
  /** The latest waits between connection attempts, oldest first; while `waiting`, the last one is still running. */
  readonly delaysMs: readonly number[];
  /** When it was last heard or connected to, in milliseconds of our clock; 0 before. */
  readonly heardMs: number;
}

/** How `RelaySet.ready` waits for relays that are not up yet. */
export interface ReadyPatience {
  /** Time to wait once no relay could be reached, in milliseconds; default 0. */
  readonly waitMs?: number | undefined;
  /** Called when it begins to wait, and when a relay is there after that. */
  onNotice?(message: string): void;
}

/** Connections to several relays, created by `createRelaySet`. */
export interface RelaySet {
  /** Addresses in use, without repeats and without secrets; they name the relays in outcomes and messages. */
  readonly relays: readonly string[];
  /** Relays that subscriptions and queries use by default. */
  readonly readRelays: readonly string[];
  /** Sends to every relay; returns one outcome each, in that order. Rejects only with `signal.reason`. */
  publish(event: SignedEvent, options?: SendOptions): Promise<readonly PublishOutcome[]>;
  /** Like `publish`, but returns one promise per relay. */
  send(event: SignedEvent, options?: SendOptions): readonly Promise<PublishOutcome>[];
  /**
   * Delivers stored and live events of `readRelays`, or of the relays in `only`, until closed; survives reconnects.
   */
  subscribe(
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    options?: SubscribeOptions,
  ): Subscription;
  /**
   * Returns stored events, verified, each once; `unanswered` names relays that sent no EOSE. Ends if the set is closed.
   */
  query(filters: readonly Filter[], options: QueryOptions): Promise<QueryResult>;
  status(): readonly RelayStatus[];
  /**
   * Returns the least proof of work (leading zero bits, NIP-13) with which some relay accepts an event of this kind.
   */
  workFor(kind: number): number;
  /** Resolves once a relay is connected; rejects with a RelayError if none can be reached or none comes in time. */
  ready(signal?: AbortSignal, patience?: ReadyPatience): Promise<void>;
  close(): Promise<void>;
}

const DEFAULTS = {
  retry: defaultRetry,
  random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 0x1_0000_0000,
  crypto: pureCrypto,
  quota: defaultQuota,
  reconciles: () => false,
  maxFrameBytes: 32 << 20,
  openTimeoutMs: 10_000,
  publishTimeoutMs: 10_000,
  reconnectMaxMs: 30_000,
};

const GOODBYE_MS = 1000;
/** Maximum events of one author that a subscription takes in ten minutes. */
const MAX_PER_AUTHOR = 4096;

/** Retries of relays that are only sent to: at a full relay, a connection becomes free once another worker is done. */
const patient = (retry: RetryPolicy): RetryPolicy => ({
  ...retry,
  maxAttempts: 3 * retry.maxAttempts,
});

/** Connects at once to each relay in `readRelays`. Throws a ConfigError if an address is wrong or none is given. */
export const createRelaySet = (urls: readonly string[], options: RelaySetOptions): RelaySet =>
  new Relays(parseRelayUrls(urls), { ...DEFAULTS, ...options });

type Settings = RelaySetOptions & Required<Pick<RelaySetOptions, keyof typeof DEFAULTS>>;

class Relays implements RelaySet {
  readonly relays: readonly string[];
  readonly readRelays: readonly string[];
  readonly silent = new Set<string>();
  readonly #waitedFor = new Set<string>();
  #opened = 0;
  readonly #settings: Settings;
  readonly #connections: readonly RelayConnection[];
  readonly #outboxes = new Map<RelayConnection, Outbox>();
  readonly #readers = new Map<RelayConnection, RelayReader>();
  readonly #inbox: Inbox;
  readonly #stop = new AbortController();
  readonly closing = this.#stop.signal;
  readonly #runs: Promise<unknown>;

  constructor(urls: readonly string[], settings: Settings) {
    const names = namesOf(urls);
    this.relays = [...names.keys()];
    this.readRelays = settings.readRelays?.(this.relays) ?? this.relays;
    this.#settings = settings;
    this.#inbox = new Inbox(settings.crypto, settings.clock);
    this.#connections = [...names].map(([name, url]) => this.#createConnection(name, url));
    for (const connection of this.#named(this.readRelays)) connection.hold();
    this.#runs = Promise.all(this.#connections.map((connection) => connection.run()));
  }

  publish(event: SignedEvent, options?: SendOptions): Promise<readonly PublishOutcome[]> {
    return Promise.all(this.send(event, options));
  }

  send(event: SignedEvent, options: SendOptions = {}): readonly Promise<PublishOutcome>[] {
    const parcel = createParcel(event);
    return this.#named(options.only).map((connection) =>
      this.#outboxes.get(connection)!.publish(parcel, options),
    );
  }

  subscribe(
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    options: SubscribeOptions = {},
  ): Subscription {
    const { longLived = false, recheck = true, maxPerAuthor = MAX_PER_AUTHOR } = options;
    const handed = new Handed(maxPerAuthor, this.#settings.clock, longLived);
    const connections = this.#named(options.only ?? this.readRelays);
    const holds = connections.map((connection) => connection.hold());
    const open = (isRenewal: boolean) => {
      const feed = { id: `n${++this.#opened}`, filters, handlers, handed, longLived, recheck };
      return connections.map((connection) =>
        this.#readers.get(connection)!.subscribe(feed, isRenewal),
      );
    };
    let parts = open(false);
    return {
      get caughtUp() {
        const caughtUp = parts.map((part) => part.isCaughtUp());
        return caughtUp.includes(true) && !caughtUp.includes(false);
      },
      renew() {
        for (const part of parts) part.close();
        parts = open(true);
      },
      close() {
        for (const part of parts) part.close();
        for (const letGo of holds) letGo();
      },
    };
  }

  query(filters: readonly Filter[], options: QueryOptions): Promise<QueryResult> {
    const queryOptions = { ...options, only: options.only ?? this.readRelays };
    return queryRelays(filters, queryOptions, this, this.#settings.clock);
  }

  onWaiting(relays: readonly string[]): void {
    const anew = relays.filter((relay) => !this.#waitedFor.has(relay));
    for (const relay of anew) this.#waitedFor.add(relay);
    if (anew.length > 0) this.#settings.onWaiting?.(anew);
  }

  status(): readonly RelayStatus[] {
    return this.#connections.map((connection) => ({
      relay: connection.url,
      state: connection.state,
      failures: connection.failures,
      lastError: connection.lastError,
      lastNotice: connection.lastNotice,
      notices: [...connection.notices],
      delaysMs: [...connection.delaysMs],
      heardMs: this.#readers.get(connection)!.heardMs,
      ...connection.counts,
      ...this.#readers.get(connection)!.counts,
      ...this.#outboxes.get(connection)!.status(),
    }));
  }

  workFor(kind: number): number {
    const up = [...this.#outboxes].filter(([connection]) => !connection.isDown);
    const least = Math.min(...up.map(([, outbox]) => outbox.workFor(kind)));
    return least <= MAX_WORK_BITS ? least : 0;
  }

  async ready(signal?: AbortSignal, { waitMs = 0, onNotice }: ReadyPatience = {}): Promise<void> {
    const { clock, openTimeoutMs } = this.#settings;
    const read = this.#named(this.readRelays);
    const anyOpen = (isOver: (connection: RelayConnection) => boolean) =>
      anyTrue(read.map((connection) => untilOpen(connection, isOver)));
    if (
      await within(
        anyOpen(({ isDown }) => isDown),
        openTimeoutMs,
        clock,
        signal,
      )
    )
      return;
    const errors = read.map(({ url, lastError }) => `${url}: ${lastError || 'no answer yet'}`);
    const message = `no relay can be reached: ${errors.join('; ')}`;
    const hint = 'check the addresses, and that a relay listens there';
    if (waitMs > 0) {
      const startMs = clock.now();
      onNotice?.(`${message}; retrying: ${hint}`);
      const isClosed = ({ state }: RelayConnection) => state === 'closed';
      if (await within(anyOpen(isClosed), waitMs, clock, signal)) {
        onNotice?.(`relay there after ${Math.round((clock.now() - startMs) / 1000)} s`);
        return;
      }
    }
    throw new RelayError('relay/none-reachable', message, { hint, data: { relays: errors } });
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('closed'));
    for (const connection of this.#connections) connection.close();
    await within(this.#runs, GOODBYE_MS, this.#settings.clock);
  }

  #named(only: readonly string[] | undefined): readonly RelayConnection[] {
    return only ? this.#connections.filter(({ url }) => only.includes(url)) : this.#connections;
  }

  /** Creates a connection; only the socket and the description use the whole address. */
  #createConnection(name: string, url: string): RelayConnection {
    const { openTimeoutMs, fetchInfo, ...others } = this.#settings;
    const isRead = this.readRelays.includes(name);
    const rest = isRead ? others : { ...others, retry: patient(others.retry) };
    const connection: RelayConnection = new RelayConnection(
      name,
      { ...rest, openSocket: () => rest.openSocket(url), connectTimeoutMs: openTimeoutMs },
      {
        onOpen: () => {
          outbox.open();
          reader.open();
        },
        onFrame: (frame) => {
          outbox.hear(frame);
          reader.hear(frame);
        },
        onDown: () => {
          outbox.down();
          reader.down();
        },
      },
    );
    const options = {
      ...rest,
      ...(fetchInfo && { fetchInfo: (_: string, stop: AbortSignal) => fetchInfo(url, stop) }),
    };
    const outbox = new Outbox(connection, options, this.#stop.signal);
    const reader = new RelayReader(
      connection,
      {
        ...rest,
        inbox: this.#inbox,
        reconciles: () => rest.reconciles(url),
        mayRetryAfterAuth: (subscription) => outbox.mayRetryAfterAuth(subscription),
      },
      this.#stop.signal,
    );
    this.#outboxes.set(connection, outbox);
    this.#readers.set(connection, reader);
    return connection;
  }
}

/** Resolves true when the connection is open, false if it is not and `isOver` says that it will not be. */
async function untilOpen(
  connection: RelayConnection,
  isOver: (connection: RelayConnection) => boolean,
): Promise<boolean> {
  for (;;) {
    if ((await connection.opened()).open) return true;
    if (isOver(connection)) return false;
  }
}
