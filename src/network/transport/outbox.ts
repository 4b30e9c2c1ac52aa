/** One relay's sending side: its rate, its limits, who we are there, and whether it keeps what it takes. */
import { type Clock, type RetryPolicy, within } from '../../base/async.ts';
import type { Signer } from '../event.ts';
import { speaksOfPace } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import type { RelayFrame } from './frames.ts';
import {
  type FetchInfo,
  Limits,
  type Parcel,
  PUBLIC_EVENT_BYTES,
  type RelayLimits,
} from './limits.ts';
import { type Outlet, type PublishOutcome, publishTo, type SendOptions } from './publishing.ts';
import { PUBLIC_EVENTS_PER_MINUTE, TokenBucket } from './rates.ts';
import { ReadBack, SignIn, type Stores } from './relay-checks.ts';
import { isPrivateRelay } from './relay-urls.ts';

export interface OutboxOptions {
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly random: () => number;
  readonly publishTimeoutMs: number;
  /** Events a minute to begin with; 0 for no limit. Default 5 at public relays, none at private ones. */
  readonly eventsPerMinute?: number;
  /** Largest event to try, as JSON; 0 for no limit. Default 65,536 at public relays, none at private ones. */
  readonly maxEventBytes?: number;
  /** Reads what each relay says of itself, once; without it only answers teach. */
  readonly fetchInfo?: FetchInfo;
  /** Proves its key to relays that ask for it (NIP-42); without it they get nothing. */
  readonly auth?: Signer;
}

/** What is known of a relay from sending to it. */
export interface OutboxStatus {
  readonly limits: RelayLimits;
  /** Whether events it accepted were there when asked for. */
  readonly stores: Stores;
  readonly missing: number;
  /** Its latest refusal for the date of an event, empty when it has accepted one since. */
  readonly clockComplaint: string;
}

/** A first event waits this long for the relay's description, once connected. */
const DESCRIPTION_MS = 1000;

export class Outbox {
  readonly #outlet: Outlet;
  readonly #fetchInfo: FetchInfo | undefined;
  /** Subscriptions asked again on this connection after AUTH. */
  readonly #askedAgain = new Set<string>();
  #hasOpened = false;
  #describe: () => void = () => {};

  constructor(connection: RelayConnection, options: OutboxOptions, stop: AbortSignal) {
    const { clock, retry, random, publishTimeoutMs, auth, fetchInfo } = options;
    const { maxEventBytes, eventsPerMinute } = options;
    const isPrivate = isPrivateRelay(connection.url);
    const bytes = maxEventBytes ?? (isPrivate ? 0 : PUBLIC_EVENT_BYTES);
    const perMinute = eventsPerMinute ?? (isPrivate ? 0 : PUBLIC_EVENTS_PER_MINUTE);
    this.#fetchInfo = fetchInfo;
    this.#outlet = {
      connection,
      clock,
      retry,
      random,
      publishTimeoutMs,
      stop,
      limits: new Limits(bytes || Number.POSITIVE_INFINITY, maxEventBytes !== undefined),
      bucket: new TokenBucket({ clock, random, perMinute: perMinute || Number.POSITIVE_INFINITY }),
      readBack: new ReadBack(connection, clock, random, stop),
      signIn: auth && new SignIn(connection, auth, clock),
      described: new Promise<void>((resolve) => {
        this.#describe = resolve;
      }),
    };
  }

  publish(parcel: Parcel, options: SendOptions): Promise<PublishOutcome> {
    return publishTo(this.#outlet, parcel, options);
  }

  workFor(kind: number): number {
    return this.#outlet.limits.workFor(kind);
  }

  status(): OutboxStatus {
    const { limits, bucket, readBack } = this.#outlet;
    return {
      limits: limits.known(bucket.perMinute),
      stores: readBack.stores,
      missing: readBack.missing,
      clockComplaint: limits.clockComplaint,
    };
  }

  open(): void {
    if (this.#hasOpened) return;
    this.#hasOpened = true;
    void this.#readInfo();
  }

  hear(frame: RelayFrame): void {
    const { bucket, signIn } = this.#outlet;
    if (frame.type === 'auth') signIn?.hear(frame.challenge);
    if (frame.type === 'notice' && speaksOfPace(frame.message)) bucket.refuse();
  }

  down(): void {
    const { connection, limits, bucket, signIn } = this.#outlet;
    limits.unlock();
    signIn?.forget();
    this.#askedAgain.clear();
    if (connection.isOverloaded) bucket.refuse(undefined, connection.retryMs);
  }

  /** Whether a subscription closed as `auth-required` is worth asking again: once per connection, after AUTH. */
  async mayAskAgain(subscription: string): Promise<boolean> {
    const { signIn, stop } = this.#outlet;
    if (!signIn || this.#askedAgain.has(subscription)) return false;
    this.#askedAgain.add(subscription);
    try {
      return (await signIn.prove(stop)) === undefined;
    } catch (error) {
      if (stop.aborted) return false;
      throw error;
    }
  }

  async #readInfo(): Promise<void> {
    const { connection, limits, clock, stop } = this.#outlet;
    try {
      if (!this.#fetchInfo) return;
      const reading = this.#fetchInfo(connection.url, stop).then((info) => {
        if (info.ok) limits.readInfo(info.value);
      });
      await within(reading, DESCRIPTION_MS, clock, stop);
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      this.#describe();
    }
  }
}
