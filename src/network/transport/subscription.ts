/** What a subscription to relays is given and what it reports. */
import type { RejectReason } from '../../run/contribution.ts';
import type { SignedEvent } from '../event.ts';
import type { Filter } from './frames.ts';
import type { Handed } from './inbox.ts';

/** What a subscription reports: events, refusals, and how far each relay has been read. */
export interface SubscriptionHandlers {
  /**
   * Called once per verified event, but again for an event for which it returned false. The set of remembered ids is
   * bounded, so an old event may come again.
   */
  onEvent(event: SignedEvent, relay: string): unknown;
  /** Called for an event that does not count. Blame the relay that sent it, not the key that it names. */
  onRefused?(reason: RejectReason, detail: string, relay: string, id: string | undefined): void;
  /** Called if a relay sends an event again that was handed over before, outside of a recheck. */
  onRepeated?(id: string, relay: string): void;
  /** Called when the relay is queried: on connecting and after each reconnect. */
  onQueried?(relay: string): void;
  /** Called when the relay has sent its stored events; again after each reconnect. */
  onCaughtUp?(relay: string): void;
  /** Called when the relay stops answering: the connection ended, or it closed the subscription for good. */
  onLost?(relay: string, message: string): void;
}

/** Options of a subscription. */
export interface SubscribeOptions {
  readonly only?: readonly string[] | undefined;
  /** After a reconnect, request only events dated after the loss; for events that are sent when they are created. */
  readonly longLived?: boolean;
  /**
   * Request the last minute again 3 s after a relay has caught up, for relays that lose events which arrive between the
   * stored query and the live subscription; default true.
   */
  readonly recheck?: boolean;
  /** Maximum events of one author in ten minutes; default 4096. */
  readonly maxPerAuthor?: number;
}

/** One subscription, shared by the readers of all its relays. */
export interface SubscriptionFeed {
  /** Subscription id in REQ and CLOSE. */
  readonly id: string;
  readonly filters: readonly Filter[];
  readonly handlers: SubscriptionHandlers;
  readonly handed: Handed;
  readonly longLived: boolean;
  readonly recheck: boolean;
}
