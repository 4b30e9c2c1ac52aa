/** One subscription over all relays: what it asked, what it has been handed, and how far each relay has come. */
import type { RejectReason } from '../../run/contribution.ts';
import type { SignedEvent } from '../event.ts';
import type { Filter } from './filter.ts';
import { createSeenIds, type Inbox } from './inbox.ts';
import type { Link } from './link.ts';

export interface SubscriptionHandlers {
  /** A verified event, once; ids are remembered in bounded number, so one from long ago may come again. */
  onEvent(event: SignedEvent, relay: string): void;
  /** An event that does not count. The relay that sent it is to blame, not the key it names. */
  onRefused?(reason: RejectReason, detail: string, relay: string): void;
  /** The relay has sent what it had stored; again after each reconnect. */
  onCaughtUp?(relay: string): void;
  /** This relay answers no more for now: the connection ended, or it closed the subscription for good. */
  onLost?(relay: string, message: string): void;
}

/** How far one relay has come with one subscription on the present connection. */
type Progress = 'asked' | 'caught-up' | 'closed';

/** What arrived over one relay, all subscriptions together. */
export interface FeedCounts {
  events: number;
  duplicates: number;
  strays: number;
  refused: number;
}

export class Feed {
  readonly id: string;
  readonly #filters: readonly Filter[];
  readonly #handlers: SubscriptionHandlers;
  /** Whom it asks. */
  readonly #links: readonly Link[];
  readonly #seen = createSeenIds();
  readonly #progress = new Map<Link, Progress>();
  /** CLOSED in a row, per relay. */
  readonly #closings = new Map<Link, number>();

  constructor(
    id: string,
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    links: readonly Link[],
  ) {
    this.id = id;
    this.#filters = filters;
    this.#handlers = handlers;
    this.#links = links;
  }

  /** Asks one relay; what it has sent before is not asked for differently, so nothing dated oddly can be missed. */
  ask(link: Link): void {
    if (link.state !== 'open' || !this.#links.includes(link)) return;
    this.#progress.set(link, 'asked');
    link.say('REQ', this.id, ...this.#filters);
  }

  /** The connection is gone, and with it what the relay knew of us. */
  forget(link: Link): void {
    if (!this.#links.includes(link)) return;
    this.#progress.delete(link);
    this.lose(link, link.lastError);
  }

  lose(link: Link, message: string): void {
    this.#handlers.onLost?.(link.url, message);
  }

  take(link: Link, raw: unknown, inbox: Inbox, counts: FeedCounts): void {
    const received = inbox.receive(raw, this.#filters, this.#seen);
    if (received.verdict === 'known') counts.duplicates++;
    else if (received.verdict === 'stray') counts.strays++;
    else if (received.verdict === 'refused') {
      counts.refused++;
      this.#handlers.onRefused?.(received.reason, received.detail, link.url);
    } else {
      counts.events++;
      this.#handlers.onEvent(received.event, link.url);
    }
  }

  catchUp(link: Link): void {
    this.#progress.set(link, 'caught-up');
    this.#closings.delete(link);
    this.#handlers.onCaughtUp?.(link.url);
  }

  /** The relay ended it; returns how often in a row. */
  close(link: Link): number {
    const closings = (this.#closings.get(link) ?? 0) + 1;
    this.#closings.set(link, closings);
    this.#progress.set(link, 'closed');
    return closings;
  }

  isClosedBy(link: Link): boolean {
    return this.#progress.get(link) === 'closed';
  }

  /** Every relay that can be reached has sent EOSE, and there is one; a first attempt under way is waited for. */
  isCaughtUp(): boolean {
    let caughtUp = false;
    for (const link of this.#links) {
      if (link.state === 'connecting' && link.failures === 0) return false;
      const progress = this.#progress.get(link);
      if (link.state === 'open' && (progress === 'asked' || progress === undefined)) return false;
      if (progress === 'caught-up') caughtUp = true;
    }
    return caughtUp;
  }
}
