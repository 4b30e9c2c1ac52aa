/** The receiving half of a relay set: subscriptions on every relay, asked again after each reconnect. */
import { backoffMs, type Clock, type RetryPolicy } from '../../base/async.ts';
import type { EventCrypto } from '../event-crypto.ts';
import { judgeAnswer } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import { Exchanges, mayHaveMore, readOn } from './exchanges.ts';
import {
  type Asking,
  type FeedCounts,
  Inbox,
  RelayFeed,
  type SubscribeOptions,
  type SubscriptionHandlers,
} from './feed.ts';
import type { EoseHint, EventFrame, Filter, RelayFrame } from './frames.ts';

export interface SubscriptionsOptions {
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly random: () => number;
  readonly crypto: EventCrypto;
  readonly reconciles: (relay: string) => boolean;
  /** Whether a subscription closed as `auth-required` is worth asking again, once we have said who we are. */
  readonly mayAskAgain: (connection: RelayConnection, subscription: string) => Promise<boolean>;
}

const THROTTLE_MS = 60_000;
const RECHECK_MS = 60_000;
/** Values in one list of a filter that every relay takes. */
const IDS_PER_REQUEST = 64;

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #signal: AbortSignal;
  readonly #feeds = new Map<string, RelayFeed>();
  readonly #inbox: Inbox;
  readonly #exchanges: Exchanges;
  readonly #counts = new Map<RelayConnection, FeedCounts>();
  /** When each relay was last heard: the last moment its connection certainly was there. */
  readonly #heardMs = new Map<RelayConnection, number>();
  #opened = 0;

  constructor(options: SubscriptionsOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
    this.#inbox = new Inbox(options.crypto, options.clock);
    this.#exchanges = new Exchanges(options.clock, signal);
  }

  counts(connection: RelayConnection): FeedCounts {
    let counts = this.#counts.get(connection);
    if (!counts) {
      counts = { events: 0, duplicates: 0, strays: 0, refused: 0, surplus: 0 };
      this.#counts.set(connection, counts);
    }
    return counts;
  }

  subscribe(
    connections: readonly RelayConnection[],
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    options: SubscribeOptions,
  ): { readonly caughtUp: boolean; close(): void } {
    const id = `n${++this.#opened}`;
    const feed = new RelayFeed(id, filters, handlers, connections, this.#options.clock, options);
    this.#feeds.set(id, feed);
    for (const connection of connections) this.#ask(feed, connection);
    return {
      get caughtUp() {
        return feed.isCaughtUp();
      },
      close: () => {
        if (!this.#feeds.delete(id)) return;
        for (const connection of connections) connection.say('CLOSE', id);
      },
    };
  }

  opened(connection: RelayConnection): void {
    this.#heardMs.set(connection, this.#options.clock.now());
    for (const feed of this.#feeds.values()) this.#ask(feed, connection);
  }

  lost(connection: RelayConnection): void {
    this.#exchanges.drop(connection);
    for (const feed of this.#feeds.values()) feed.forget(connection, this.#heard(connection));
  }

  read(connection: RelayConnection, frame: RelayFrame): void {
    this.#heardMs.set(connection, this.#options.clock.now());
    if (this.#exchanges.read(connection, frame)) return;
    if (frame.type !== 'event' && frame.type !== 'eose' && frame.type !== 'closed') return;
    const feed = this.#feeds.get(frame.subscription);
    const asking = feed?.asking(connection);
    if (!feed || !asking) {
      if (frame.type === 'event') this.counts(connection).strays++;
    } else if (frame.type === 'event') this.#take(feed, connection, asking, frame);
    else if (asking.stage === 'closed') return;
    else if (frame.type === 'closed') void this.#reopen(feed, connection, asking, frame.message);
    else if (asking.stage === 'asked') void this.#endStored(feed, connection, asking, frame.hint);
  }

  clear(): void {
    this.#feeds.clear();
  }

  heardMs(connection: RelayConnection): number {
    return this.#heardMs.get(connection) ?? 0;
  }

  #heard(connection: RelayConnection): number {
    return this.#heardMs.get(connection) ?? this.#options.clock.now();
  }

  #ask(feed: RelayFeed, connection: RelayConnection): void {
    if (connection.state !== 'open' || !feed.connections.includes(connection)) return;
    if (feed.isWorthSyncing && this.#options.reconciles(connection.url))
      void this.#sync(feed, connection);
    else this.#askAll(feed, connection);
  }

  #askAll(feed: RelayFeed, connection: RelayConnection): void {
    const filters = feed.filtersFor(connection);
    feed.begin(connection, 'asked');
    connection.say('REQ', feed.id, ...filters);
  }

  #isCurrent(feed: RelayFeed, connection: RelayConnection, asking: Asking): boolean {
    return this.#feeds.get(feed.id) === feed && feed.asking(connection) === asking;
  }

  #take(feed: RelayFeed, connection: RelayConnection, asking: Asking, frame: EventFrame): void {
    const createdAt = feed.take(connection, frame, this.#inbox, this.counts(connection));
    if (createdAt === undefined) return;
    asking.count++;
    asking.last = createdAt;
  }

  /** EOSE: reads on where the relay seems to have stopped early. */
  async #endStored(
    feed: RelayFeed,
    connection: RelayConnection,
    asking: Asking,
    hint: EoseHint | undefined,
  ): Promise<void> {
    const first = { count: asking.count, last: asking.last, hint };
    const filters = feed.filtersFor(connection);
    asking.stage = 'filling';
    if (filters.some((filter) => mayHaveMore(filter, first))) {
      const ask = (filter: Filter) => this.#query(feed, connection, [filter]);
      for (const filter of filters) {
        // which of several filters an event was sent for is not told, so each is then read from its top
        const page = filters.length === 1 ? first : await ask(filter);
        const isWhole = page !== undefined && (await readOn(filter, page, ask));
        if (!this.#isCurrent(feed, connection, asking)) return;
        if (!isWhole)
          connection.lastNotice = 'more is stored than could be read; events may be missing';
      }
    }
    this.#catchUp(feed, connection, asking);
  }

  #catchUp(feed: RelayFeed, connection: RelayConnection, asking: Asking): void {
    feed.catchUp(connection, asking);
    if (!feed.recheck || !this.#isCurrent(feed, connection, asking)) return;
    const since = Math.floor((this.#options.clock.now() - RECHECK_MS) / 1000);
    const recent = feed.filters.map((filter) => ({
      ...filter,
      since: Math.max(since, filter.since ?? 0),
    }));
    void this.#query(feed, connection, recent);
  }

  #query(feed: RelayFeed, connection: RelayConnection, filters: readonly Filter[]) {
    const counts = this.counts(connection);
    return this.#exchanges.query(connection, filters, (frame) => {
      if (this.#feeds.get(feed.id) !== feed) return undefined;
      return feed.take(connection, frame, this.#inbox, counts, true);
    });
  }

  /** Asks for new events only, and finds out by NIP-77 which stored ones are missing. */
  async #sync(feed: RelayFeed, connection: RelayConnection): Promise<void> {
    const asking = feed.begin(connection, 'filling');
    connection.say('REQ', feed.id, ...feed.filters.map((filter) => ({ ...filter, limit: 0 })));
    for (const filter of feed.filters) {
      const need = await this.#exchanges.reconcile(connection, filter, feed.handed.seen.entries());
      if (!this.#isCurrent(feed, connection, asking)) return;
      if (!need || !(await this.#fetch(feed, connection, need))) {
        if (this.#isCurrent(feed, connection, asking)) this.#askAll(feed, connection);
        return;
      }
    }
    if (this.#isCurrent(feed, connection, asking)) this.#catchUp(feed, connection, asking);
  }

  async #fetch(
    feed: RelayFeed,
    connection: RelayConnection,
    ids: readonly string[],
  ): Promise<boolean> {
    for (let from = 0; from < ids.length; from += IDS_PER_REQUEST) {
      const batch = ids.slice(from, from + IDS_PER_REQUEST);
      if (!(await this.#query(feed, connection, [{ ids: batch }]))) return false;
    }
    return true;
  }

  /** Asks again after a CLOSED that may pass; one that will not is left until the next connection. */
  async #reopen(
    feed: RelayFeed,
    connection: RelayConnection,
    asking: Asking,
    message: string,
  ): Promise<void> {
    const { clock, retry, random, mayAskAgain } = this.#options;
    connection.lastNotice = message;
    const closings = feed.close(connection, asking, this.#heard(connection));
    const { status, transient } = judgeAnswer(false, message);
    if (status === 'auth-needed' && (await mayAskAgain(connection, feed.id))) {
      this.#askAgain(feed, connection, asking);
      return;
    }
    if (closings >= retry.maxAttempts || !(transient || status === 'throttled')) {
      feed.lose(connection, message);
      return;
    }
    const delayMs = status === 'throttled' ? THROTTLE_MS : backoffMs(retry, closings, random);
    try {
      await clock.sleep(delayMs, this.#signal);
    } catch {
      return; // closed while waiting
    }
    this.#askAgain(feed, connection, asking);
  }

  #askAgain(feed: RelayFeed, connection: RelayConnection, asking: Asking): void {
    if (this.#isCurrent(feed, connection, asking) && asking.stage === 'closed')
      this.#ask(feed, connection);
  }
}
