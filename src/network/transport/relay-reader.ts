/**
 * Receives from one relay: requests each subscription, reads all stored events, and requests it again after a
 * reconnect.
 */
import { backoffMs, slept, within } from '../../base/async.ts';
import { judgeAnswer } from './answers.ts';
import type { ConnectionOptions, RelayConnection } from './connection.ts';
import type { EoseHint, EventFrame, Filter, RelayFrame } from './frames.ts';
import type { Inbox } from './inbox.ts';
import { createReconciliation, mayHaveMore, type Page, readOn, since } from './missing-events.ts';
import type { SubscriptionFeed } from './subscription.ts';

export interface ReaderOptions extends Pick<ConnectionOptions, 'clock' | 'retry' | 'random'> {
  /** Verifies events; shared by all relays, so that each signature is checked once. */
  readonly inbox: Inbox;
  /** Whether the relay supports NIP-77. */
  readonly reconciles: () => boolean;
  /** Reports whether to repeat a subscription closed as `auth-required`, after AUTH. */
  readonly mayRetryAfterAuth: (subscription: string) => Promise<boolean>;
}

/** Counts of what arrived from one relay, over all subscriptions. */
export interface ReaderCounts {
  events: number;
  duplicates: number;
  /** Events that were not requested from this relay. */
  strays: number;
  refused: number;
  /** Events skipped because their author had sent too many. */
  surplus: number;
}

/** One request on the current connection; `filling`: missing events are being requested by other queries. */
interface Asking {
  stage: 'asked' | 'filling' | 'caught-up' | 'closed';
  count: number;
  last: number;
}

/** A subscription at this relay, across connections. */
interface Standing {
  readonly feed: SubscriptionFeed;
  /** The current request; undefined while disconnected. */
  asking: Asking | undefined;
  /** All events that the relay had before this time (our clock) were received. */
  coveredMs: number | undefined;
  /** Number of CLOSED answers since it last caught up. */
  closings: number;
  /** The request in progress renews another one and needs no recheck. */
  isRenewal: boolean;
}

/** Receives the answers to one query; undefined if the connection ended. */
type Hear = (frame: RelayFrame | undefined) => void;

const THROTTLE_MS = 60_000;
/** Wait before the recheck: until then, a relay may not have stored all that it accepted. */
const RECHECK_AFTER_MS = 3000;
/** The recheck requests events dated this long before the relay caught up. */
const RECHECK_MS = 60_000;
const QUERY_MS = 60_000;
/** Wait for the end of stored events before a subscription is requested again; doubles each time. */
const UNANSWERED_MS = 60_000;
const RECONCILE_MS = 20_000;
/** Maximum values in one filter list that every relay accepts. */
const IDS_PER_REQUEST = 64;
/** Number of known events from which comparing ids costs less than receiving all again. */
const SYNC_FROM = 64;
/** How far `since` reaches back before the loss of a connection: clocks differ, and events take time. */
const OVERLAP_MS = 120_000;

export class RelayReader {
  readonly counts: ReaderCounts = { events: 0, duplicates: 0, strays: 0, refused: 0, surplus: 0 };
  /** When the relay was last heard, in milliseconds of our clock; 0 before the first message. */
  heardMs = 0;
  readonly #connection: RelayConnection;
  readonly #options: ReaderOptions;
  readonly #signal: AbortSignal;
  readonly #standings = new Map<string, Standing>();
  readonly #exchanges = new Map<string, Hear>();
  #begun = 0;

  constructor(connection: RelayConnection, options: ReaderOptions, signal: AbortSignal) {
    this.#connection = connection;
    this.#options = options;
    this.#signal = signal;
  }

  /**
   * Adds a subscription; a renewal is not rechecked before the next connection. `isCaughtUp` returns undefined if the
   * relay is unreachable or refused, so callers need not wait.
   */
  subscribe(
    feed: SubscriptionFeed,
    isRenewal: boolean,
  ): { isCaughtUp(): boolean | undefined; close(): void } {
    const begun = { asking: undefined, coveredMs: undefined, closings: 0 };
    const standing: Standing = { feed, isRenewal, ...begun };
    this.#standings.set(feed.id, standing);
    this.#ask(standing);
    return {
      isCaughtUp: () => this.#isCaughtUp(standing),
      close: () => {
        if (this.#standings.delete(feed.id)) this.#connection.say('CLOSE', feed.id);
      },
    };
  }

  open(): void {
    this.heardMs = this.#options.clock.now();
    for (const standing of this.#standings.values()) this.#ask(standing);
  }

  down(): void {
    for (const hear of [...this.#exchanges.values()]) hear(undefined);
    for (const standing of this.#standings.values()) {
      this.#leave(standing);
      standing.asking = undefined;
      standing.feed.handlers.onLost?.(this.#connection.url, this.#connection.lastError);
    }
  }

  hear(frame: RelayFrame): void {
    this.heardMs = this.#options.clock.now();
    if (!('subscription' in frame)) return;
    const exchange = this.#exchanges.get(frame.subscription);
    if (exchange) {
      exchange(frame);
      return;
    }
    const standing = this.#standings.get(frame.subscription);
    const asking = standing?.asking;
    if (!standing || !asking) {
      if (frame.type === 'event') this.counts.strays++;
    } else if (frame.type === 'event') count(asking, this.#take(standing.feed, frame, false));
    else if (asking.stage === 'closed') return;
    else if (frame.type === 'closed') void this.#reopen(standing, asking, frame.message);
    else if (frame.type === 'eose' && asking.stage === 'asked')
      void this.#endStored(standing, asking, frame.hint);
  }

  #isCaughtUp({ asking }: Standing): boolean | undefined {
    const { state, failures } = this.#connection;
    if (state === 'connecting' && failures === 0) return false; // waits for the first attempt
    if (asking?.stage === 'caught-up') return true;
    return state === 'open' && asking?.stage !== 'closed' ? false : undefined;
  }

  /** Reports whether the subscription is open and no later request has replaced this one. */
  #isCurrent(standing: Standing, asking: Asking): boolean {
    return this.#isSubscribed(standing) && standing.asking === asking;
  }

  #isSubscribed(standing: Standing): boolean {
    return !this.#signal.aborted && this.#standings.get(standing.feed.id) === standing;
  }

  #ask(standing: Standing): void {
    if (this.#connection.state !== 'open') return;
    const { filters, handed } = standing.feed;
    const isWorthSyncing =
      handed.seen.size >= SYNC_FROM &&
      filters.every(({ limit, ids }) => limit === undefined && ids === undefined);
    if (isWorthSyncing && this.#options.reconciles()) void this.#sync(standing);
    else this.#askAll(standing);
  }

  #askAll(standing: Standing): void {
    const asking = this.#begin(standing, 'asked');
    this.#connection.say('REQ', standing.feed.id, ...filtersFor(standing));
    void this.#repeatRequest(standing, asking);
  }

  /** Repeats a request that was not answered, at growing intervals: it may have been lost on a living connection. */
  async #repeatRequest(standing: Standing, asking: Asking): Promise<void> {
    for (let waitMs = UNANSWERED_MS; ; waitMs *= 2) {
      if (!(await slept(this.#options.clock, waitMs, this.#signal))) return;
      if (!this.#isCurrent(standing, asking) || asking.stage !== 'asked') return;
      this.#connection.say('REQ', standing.feed.id, ...filtersFor(standing));
    }
  }

  #begin(standing: Standing, stage: Asking['stage']): Asking {
    const asking = { stage, count: 0, last: 0 };
    standing.asking = asking;
    standing.feed.handlers.onQueried?.(this.#connection.url);
    return asking;
  }

  /** Takes an event; returns its `created_at` if it was requested. */
  #take(feed: SubscriptionFeed, frame: EventFrame, isReread: boolean): number | undefined {
    const { url } = this.#connection;
    const received = this.#options.inbox.receive(frame, feed.filters, feed.handed);
    switch (received.verdict) {
      case 'known':
        this.counts.duplicates++;
        if (!isReread) feed.handlers.onRepeated?.(received.id, url);
        return received.createdAt;
      case 'surplus':
        this.counts.surplus++;
        return received.createdAt;
      case 'stray':
        this.counts.strays++;
        return undefined;
      case 'refused':
        this.counts.refused++;
        feed.handlers.onRefused?.(received.reason, received.detail, url, received.id);
        if (received.isFault) this.#connection.blame();
        return undefined;
      case 'new':
        this.counts.events++;
        if (feed.handlers.onEvent(received.event, url) === false)
          feed.handed.seen.delete(received.event.id);
        return received.event.created_at;
    }
  }

  /** Handles EOSE: reads further pages if the relay seems to have stopped early. */
  async #endStored(standing: Standing, asking: Asking, hint: EoseHint | undefined): Promise<void> {
    const first = { count: asking.count, last: asking.last, hint };
    const filters = filtersFor(standing);
    asking.stage = 'filling';
    if (filters.some((filter) => mayHaveMore(filter, first))) {
      const ask = (filter: Filter) => this.#query(standing, [filter]);
      for (const filter of filters) {
        // with several filters it is unknown which one an event matched, so each is read again from its newest event
        const page = filters.length === 1 ? first : await ask(filter);
        const isWhole = page !== undefined && (await readOn(filter, page, ask));
        if (!this.#isCurrent(standing, asking)) return;
        if (!isWhole) {
          const notice = 'more is stored than could be read; events may be missing';
          this.#connection.lastNotice = notice;
        }
      }
    }
    this.#catchUp(standing, asking);
  }

  #catchUp(standing: Standing, asking: Asking): void {
    const { feed } = standing;
    asking.stage = 'caught-up';
    standing.closings = 0;
    feed.handlers.onCaughtUp?.(this.#connection.url);
    const needsRecheck = feed.recheck && !standing.isRenewal;
    standing.isRenewal = false;
    if (!needsRecheck || !this.#isCurrent(standing, asking)) return;
    void this.#recheck(standing, asking);
  }

  /** Requests the last minute again after RECHECK_AFTER_MS. */
  async #recheck(standing: Standing, asking: Asking): Promise<void> {
    const { clock } = this.#options;
    const fromMs = clock.now() - RECHECK_MS;
    if (!(await slept(clock, RECHECK_AFTER_MS, this.#signal))) return;
    if (!this.#isCurrent(standing, asking)) return;
    await this.#query(standing, since(fromMs, standing.feed.filters));
  }

  /** Requests new events only, and finds missing stored ones by NIP-77. */
  async #sync(standing: Standing): Promise<void> {
    const { id, filters, handed } = standing.feed;
    const asking = this.#begin(standing, 'filling');
    this.#connection.say('REQ', id, ...filters.map((filter) => ({ ...filter, limit: 0 })));
    for (const filter of filters) {
      const need = await this.#reconcile(filter, handed.seen.entries());
      if (!this.#isCurrent(standing, asking)) return;
      if (!need || !(await this.#fetch(standing, need))) {
        if (this.#isCurrent(standing, asking)) this.#askAll(standing);
        return;
      }
    }
    if (this.#isCurrent(standing, asking)) this.#catchUp(standing, asking);
  }

  async #fetch(standing: Standing, ids: readonly string[]): Promise<boolean> {
    for (let from = 0; from < ids.length; from += IDS_PER_REQUEST) {
      const batch = ids.slice(from, from + IDS_PER_REQUEST);
      if (!(await this.#query(standing, [{ ids: batch }]))) return false;
    }
    return true;
  }

  /** Repeats the request after a transient CLOSED; after a permanent one, waits for the next connection. */
  async #reopen(standing: Standing, asking: Asking, message: string): Promise<void> {
    const { clock, retry, random, mayRetryAfterAuth } = this.#options;
    const { feed } = standing;
    this.#connection.lastNotice = message;
    const closings = ++standing.closings;
    this.#leave(standing);
    asking.stage = 'closed';
    const { status, transient } = judgeAnswer(false, message);
    const hasSignedIn = status === 'auth-needed' && (await mayRetryAfterAuth(feed.id));
    if (!hasSignedIn) {
      if (closings >= retry.maxAttempts || !(transient || status === 'throttled')) {
        feed.handlers.onLost?.(this.#connection.url, message);
        return;
      }
      const delayMs = status === 'throttled' ? THROTTLE_MS : backoffMs(retry, closings, random);
      if (!(await slept(clock, delayMs, this.#signal))) return;
    }
    // a page that was under way may have caught up in the meantime
    if (this.#isCurrent(standing, asking) && asking.stage === 'closed') this.#ask(standing);
  }

  #leave(standing: Standing): void {
    if (standing.asking?.stage === 'caught-up') standing.coveredMs = this.heardMs;
  }

  /** Queries stored events apart from the subscription's own request; undefined if refused or disconnected. */
  #query(standing: Standing, filters: readonly Filter[]): Promise<Page | undefined> {
    const page = { count: 0, last: 0 };
    return this.#exchange(QUERY_MS, 'CLOSE', (name, end) => {
      this.#connection.say('REQ', name, ...filters);
      return (frame) => {
        if (frame?.type !== 'event') {
          end(frame?.type === 'eose' ? { ...page, hint: frame.hint } : undefined);
        } else if (this.#isSubscribed(standing)) {
          count(page, this.#take(standing.feed, frame, true));
        }
      };
    });
  }

  /** Returns the ids of events that the relay has and we lack; undefined if it cannot or does not answer. */
  async #reconcile(
    filter: Filter,
    known: Iterable<readonly [id: string, createdAt: number]>,
  ): Promise<readonly string[] | undefined> {
    const side = await createReconciliation(known);
    return this.#exchange(RECONCILE_MS, 'NEG-CLOSE', (name, end) => {
      this.#connection.say('NEG-OPEN', name, filter, side.opening);
      return (frame) => {
        if (frame?.type !== 'neg-msg') {
          end(undefined);
          return;
        }
        try {
          const next = side.answer(frame.message);
          if (next === null) end([...side.need]);
          else this.#connection.say('NEG-MSG', name, next);
        } catch {
          this.#connection.blame();
          end(undefined);
        }
      };
    });
  }

  async #exchange<T>(
    ms: number,
    farewell: 'CLOSE' | 'NEG-CLOSE',
    begin: (name: string, end: (result: T | undefined) => void) => Hear,
  ): Promise<T | undefined> {
    const name = `x${++this.#begun}`;
    try {
      const ended = new Promise<T | undefined>((resolve) => {
        this.#exchanges.set(name, begin(name, resolve));
      });
      return await within(ended, ms, this.#options.clock, this.#signal);
    } catch {
      return undefined; // closed meanwhile
    } finally {
      this.#exchanges.delete(name);
      this.#connection.say(farewell, name);
    }
  }
}

/** Returns the filters to request now: everything, or what is new since the relay had last sent everything. */
function filtersFor({ feed, coveredMs }: Standing): readonly Filter[] {
  if (coveredMs === undefined || !feed.longLived) return feed.filters;
  return since(coveredMs - OVERLAP_MS, feed.filters);
}

function count(page: { count: number; last: number }, createdAt: number | undefined): void {
  if (createdAt === undefined) return;
  page.count++;
  page.last = createdAt;
}
