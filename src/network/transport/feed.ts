/** One subscription over all relays. An event counts once its shape, filter, author quota, id and signature pass. */
import type { Clock } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { isHex32 } from '../../base/bytes.ts';
import type { Result } from '../../base/errors.ts';
import type { RejectReason } from '../../run/contribution.ts';
import { eventId, parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import type { EventCrypto } from '../event-crypto.ts';
import { idOf } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import { type EventFrame, type Filter, matchesFilter } from './frames.ts';
import { AuthorQuota } from './rates.ts';

export interface SubscriptionHandlers {
  /** A verified event, once; ids are remembered in bounded number, so one from long ago may come again. */
  onEvent(event: SignedEvent, relay: string): void;
  /** An event that does not count. The relay that sent it is to blame, not the key it names. */
  onRefused?(reason: RejectReason, detail: string, relay: string, id: string | undefined): void;
  /** A relay sent an event that was handed over before, and not because it was asked for the same once more. */
  onRepeated?(id: string, relay: string): void;
  /** The relay is being asked: at first when it is connected, again after each reconnect. */
  onAsked?(relay: string): void;
  /** The relay has sent what it had stored; again after each reconnect. */
  onCaughtUp?(relay: string): void;
  /** This relay answers no more for now: the connection ended, or it closed the subscription for good. */
  onLost?(relay: string, message: string): void;
}

export interface SubscribeOptions {
  readonly only?: readonly string[] | undefined;
  /** After a reconnect, ask only for events dated after the loss; for events that are sent as soon as they are made. */
  readonly longLived?: boolean;
  /** Ask once more for the last minute when a relay has caught up, for relays that lose what arrives; default true. */
  readonly recheck?: boolean;
  /** Most events of one author in ten minutes; default 4096. */
  readonly maxPerAuthor?: number;
}

/** How far one relay has come on its present connection: `filling` asks for what is missing by other queries. */
type Stage = 'asked' | 'filling' | 'caught-up' | 'closed';

export interface Asking {
  stage: Stage;
  count: number;
  last: number;
}

/** What arrived over one relay, all subscriptions together. */
export interface FeedCounts {
  events: number;
  duplicates: number;
  /** Not asked for, or not of this relay. */
  strays: number;
  refused: number;
  /** Left unread because their author had sent too many. */
  surplus: number;
}

const MAX_PER_AUTHOR = 4096;
/** From so many known events on, comparing ids costs less than hearing all again. */
const SYNC_FROM = 64;
/** How far before the loss of a connection `since` reaches back: clocks differ, and events travel. */
const OVERLAP_MS = 120_000;

export class RelayFeed {
  readonly id: string;
  readonly filters: readonly Filter[];
  readonly handed: Handed;
  readonly recheck: boolean;
  readonly connections: readonly RelayConnection[];
  readonly #handlers: SubscriptionHandlers;
  readonly #longLived: boolean;
  readonly #askings = new Map<RelayConnection, Asking>();
  /** Everything a relay had before this time of our clock has been asked for and answered. */
  readonly #coveredMs = new Map<RelayConnection, number>();
  readonly #closings = new Map<RelayConnection, number>();

  constructor(
    id: string,
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    connections: readonly RelayConnection[],
    clock: Clock,
    { longLived = false, recheck = true, maxPerAuthor = MAX_PER_AUTHOR }: SubscribeOptions,
  ) {
    this.id = id;
    this.filters = filters;
    this.connections = connections;
    this.recheck = recheck;
    this.handed = new Handed(maxPerAuthor, clock, longLived);
    this.#handlers = handlers;
    this.#longLived = longLived;
  }

  begin(connection: RelayConnection, stage: Stage): Asking {
    const asking = { stage, count: 0, last: 0 };
    this.#askings.set(connection, asking);
    this.#handlers.onAsked?.(connection.url);
    return asking;
  }

  asking(connection: RelayConnection): Asking | undefined {
    return this.#askings.get(connection);
  }

  /** What to ask a relay now: all there is, or what is new since it was last known to have sent everything. */
  filtersFor(connection: RelayConnection): readonly Filter[] {
    const coveredMs = this.#longLived ? this.#coveredMs.get(connection) : undefined;
    if (coveredMs === undefined) return this.filters;
    const since = Math.floor((coveredMs - OVERLAP_MS) / 1000);
    return this.filters.map((filter) => ({ ...filter, since: Math.max(since, filter.since ?? 0) }));
  }

  /** Whether so much is known that ids should be compared rather than events sent. */
  get isWorthSyncing(): boolean {
    return (
      this.handed.seen.size >= SYNC_FROM &&
      this.filters.every(({ limit, ids }) => limit === undefined && ids === undefined)
    );
  }

  /** The connection is gone, and with it what the relay knew of us; `heardMs` is when it was last heard. */
  forget(connection: RelayConnection, heardMs: number): void {
    if (!this.connections.includes(connection)) return;
    this.#leave(connection, heardMs);
    this.#askings.delete(connection);
    this.lose(connection, connection.lastError);
  }

  lose(connection: RelayConnection, message: string): void {
    this.#handlers.onLost?.(connection.url, message);
  }

  /** Reads an event from a relay; returns the time it names when it is one that was asked for. */
  take(
    connection: RelayConnection,
    frame: EventFrame,
    inbox: Inbox,
    counts: FeedCounts,
    isReread = false,
  ): number | undefined {
    const received = inbox.receive(frame, this.filters, this.handed);
    switch (received.verdict) {
      case 'known':
        counts.duplicates++;
        if (!isReread) this.#handlers.onRepeated?.(received.id, connection.url);
        return received.createdAt;
      case 'surplus':
        counts.surplus++;
        return received.createdAt;
      case 'stray':
        counts.strays++;
        return undefined;
      case 'refused':
        counts.refused++;
        this.#handlers.onRefused?.(received.reason, received.detail, connection.url, received.id);
        if (received.isFault) connection.blame();
        return undefined;
      case 'new':
        counts.events++;
        this.#handlers.onEvent(received.event, connection.url);
        return received.event.created_at;
    }
  }

  catchUp(connection: RelayConnection, asking: Asking): void {
    asking.stage = 'caught-up';
    this.#closings.delete(connection);
    this.#handlers.onCaughtUp?.(connection.url);
  }

  close(connection: RelayConnection, asking: Asking, heardMs: number): number {
    const closings = (this.#closings.get(connection) ?? 0) + 1;
    this.#closings.set(connection, closings);
    this.#leave(connection, heardMs);
    asking.stage = 'closed';
    return closings;
  }

  /** Every relay that can be reached has sent EOSE, and there is one; a first attempt under way is waited for. */
  isCaughtUp(): boolean {
    let caughtUp = false;
    for (const connection of this.connections) {
      if (connection.state === 'connecting' && connection.failures === 0) return false;
      const stage = this.#askings.get(connection)?.stage;
      if (connection.state === 'open' && stage !== 'caught-up' && stage !== 'closed') return false;
      if (stage === 'caught-up') caughtUp = true;
    }
    return caughtUp;
  }

  #leave(connection: RelayConnection, heardMs: number): void {
    if (this.#askings.get(connection)?.stage === 'caught-up')
      this.#coveredMs.set(connection, heardMs);
  }
}

export type Received =
  | { readonly verdict: 'new'; readonly event: SignedEvent }
  | { readonly verdict: 'known'; readonly id: string; readonly createdAt: number }
  /** Its author has said more than a subscription takes; not verified. */
  | { readonly verdict: 'surplus'; readonly createdAt: number }
  /** Nothing the filters ask for: the relay's fault, or another application's event. */
  | { readonly verdict: 'stray' }
  | {
      readonly verdict: 'refused';
      readonly reason: RejectReason;
      readonly detail: string;
      readonly id: string | undefined;
      /** No relay that checks events as NIP-01 says would have sent it. */
      readonly isFault: boolean;
    };

export const REMEMBERED = 32_768;
export const REMEMBERED_SIGNATURES = 4096;
/** Relays bring the same event within this time; one that comes again later is checked and counted once more. */
const REMEMBERED_MS = 150_000;

export class Handed {
  /** The time each event names, by id; where `isLongLived`, of those of the last minutes. */
  readonly seen: Recent<number>;
  readonly authors: AuthorQuota;

  constructor(maxPerAuthor: number, clock: Clock, isLongLived = false) {
    this.seen = new Recent(REMEMBERED, isLongLived ? { clock, ms: REMEMBERED_MS } : undefined);
    this.authors = new AuthorQuota(maxPerAuthor, clock);
  }
}

const reasons: Readonly<Record<string, RejectReason>> = {
  unsigned: 'unsigned',
  'too-large': 'too-large',
  'bad-id': 'bad-id',
  'bad-signature': 'bad-signature',
};

/** Not every relay refuses these, so sending them does not speak against one. */
const pardoned: ReadonlySet<string> = new Set(['too-large', 'not-text']);

export class Inbox {
  readonly #crypto: EventCrypto;
  /** The good signature of each event verified lately: checked once, however many relays and subscriptions bring it. */
  readonly #verified: Recent<string>;

  constructor(crypto: EventCrypto, clock: Clock) {
    this.#crypto = crypto;
    this.#verified = new Recent(REMEMBERED_SIGNATURES, { clock, ms: REMEMBERED_MS });
  }

  get size(): number {
    return this.#verified.size;
  }

  /** Judges one unparsed event for a subscription that asked with `filters` and has been `handed` others. */
  receive(
    { event: raw, isPlain }: EventFrame,
    filters: readonly Filter[],
    { seen, authors }: Handed,
  ): Received {
    const claimed = idOf(raw);
    if (typeof claimed === 'string') {
      const createdAt = seen.get(claimed);
      if (createdAt !== undefined) return { verdict: 'known', id: claimed, createdAt };
    }
    const parsed = parseEvent(raw);
    if (!parsed.ok) return refusedBy(parsed, claimed);
    const event = parsed.value;
    if (!filters.some((filter) => matchesFilter(filter, event))) return { verdict: 'stray' };
    if (!authors.allows(event.pubkey)) {
      return { verdict: 'surplus', createdAt: event.created_at };
    }
    if (!this.#isVerified(event)) {
      const verified = verifyEvent(event, this.#crypto, isPlain);
      if (!verified.ok) return refusedBy(verified, claimed);
      this.#verified.set(event.id, event.sig);
    }
    authors.count(event.pubkey);
    seen.set(event.id, event.created_at);
    return { verdict: 'new', event };
  }

  /** The same id and signature were good before; the id must still be the hash of this very copy. */
  #isVerified(event: SignedEvent): boolean {
    if (this.#verified.get(event.id) !== event.sig) return false;
    return eventId(event.pubkey, event, this.#crypto.sha256Text) === event.id;
  }
}

function refusedBy(
  { issue }: Extract<Result<SignedEvent>, { ok: false }>,
  claimed: unknown,
): Received {
  const detail = issue.at === '' ? issue.message : `${issue.at}: ${issue.message}`;
  const reason = reasons[issue.code] ?? 'malformed';
  const id = typeof claimed === 'string' && isHex32(claimed) ? claimed : undefined;
  return { verdict: 'refused', reason, detail, id, isFault: !pardoned.has(issue.code) };
}
