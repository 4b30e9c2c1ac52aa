/** Several relays used as one: publish to all, hear from all, believe none. What is heard is verified and handed over once. */
import type { Clock } from '../../base/clock.ts';
import { RelayError } from '../../base/errors.ts';
import { sha256 } from '../../base/hash.ts';
import { backoffMs, defaultRetry, type RetryPolicy } from '../../base/retry.ts';
import type { Sha256, SignedEvent } from '../event.ts';
import { within } from './deadline.ts';
import { Feed, type FeedCounts, type SubscriptionHandlers } from './feed.ts';
import type { Filter } from './filter.ts';
import type { RelayFrame } from './frames.ts';
import { Inbox } from './inbox.ts';
import { Link, type LinkState } from './link.ts';
import {
  createLearned,
  createParcel,
  type Learned,
  type PublishOptions,
  type PublishOutcome,
  publishTo,
} from './publishing.ts';
import { parseRelayUrls } from './relay-urls.ts';
import type { OpenSocket } from './socket.ts';
import { judgeAnswer } from './verdict.ts';

export interface RelaySetOptions {
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  /** For connecting and publishing; default 4 attempts from 250 ms, doubling, at most 2 s, full jitter. */
  readonly retry?: RetryPolicy;
  /** Draws from [0, 1) for jitter; default the platform's random bytes. */
  readonly random?: () => number;
  /** For ids; default the pure one, on Node give `nativeSha256`. */
  readonly sha256?: Sha256;
  /** Longer frames from relays are dropped unread; default 32 MiB. */
  readonly maxFrameBytes?: number;
  /** How long `ready`, and each attempt to connect, may take; default 10 s. */
  readonly openTimeoutMs?: number;
  /** Wait for an OK, besides the time the event needs at 64 kB/s; default 10 s. */
  readonly publishTimeoutMs?: number;
  /** Longest wait between attempts to reach a relay that stays away; default 30 s. */
  readonly reconnectMaxMs?: number;
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Some of the set's relays; default all of them. */
  readonly only?: readonly string[] | undefined;
}

export interface Subscription {
  /** Every reachable relay has sent what it had stored. */
  readonly caughtUp: boolean;
  close(): void;
}

export interface RelayStatus extends Readonly<FeedCounts> {
  readonly relay: string;
  readonly state: LinkState;
  /** Connections opened. */
  readonly opens: number;
  /** Attempts to connect. */
  readonly attempts: number;
  /** Failures in a row, now. */
  readonly failures: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly framesIn: number;
  /** Frames that were no message of the protocol, or too long. */
  readonly garbage: number;
  readonly lastError: string;
  readonly lastNotice: string;
}

export interface RelaySet {
  /** The addresses in use, in order, each once. */
  readonly relays: readonly string[];
  /** Sends to every relay; one outcome each, in that order; rejects only with `signal.reason`. */
  publish(event: SignedEvent, options?: SendOptions): Promise<readonly PublishOutcome[]>;
  /** The same, one promise per relay: a slow one need not be waited for. */
  send(event: SignedEvent, options?: SendOptions): readonly Promise<PublishOutcome>[];
  /** Stored and live events of all relays, or of those named, until closed; survives reconnects. */
  subscribe(
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    only?: readonly string[],
  ): Subscription;
  status(): readonly RelayStatus[];
  /** Resolves once a relay is connected; rejects with a `RelayError` when none can be reached. */
  ready(signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const DEFAULTS = {
  retry: defaultRetry,
  random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 0x1_0000_0000,
  sha256,
  maxFrameBytes: 32 << 20,
  openTimeoutMs: 10_000,
  publishTimeoutMs: 10_000,
  reconnectMaxMs: 30_000,
};

/** How long `close` waits for relays to say goodbye, and how long a throttled REQ pauses. */
const GOODBYE_MS = 1000;
const THROTTLE_MS = 60_000;

/** Opens one connection per relay at once; throws a `ConfigError` when an address is wrong or none is given. */
export const createRelaySet = (urls: readonly string[], options: RelaySetOptions): RelaySet =>
  new Relays(parseRelayUrls(urls), { ...DEFAULTS, ...options });

type Settings = Required<RelaySetOptions>;

class Relays implements RelaySet {
  readonly relays: readonly string[];
  readonly #settings: Settings;
  readonly #links: readonly Link[];
  readonly #learned = new Map<Link, Learned>();
  readonly #counts = new Map<Link, FeedCounts>();
  readonly #feeds = new Map<string, Feed>();
  readonly #inbox: Inbox;
  readonly #stop = new AbortController();
  readonly #runs: Promise<unknown>;
  #subscriptions = 0;

  constructor(urls: readonly string[], settings: Settings) {
    this.relays = urls;
    this.#settings = settings;
    this.#inbox = new Inbox(settings.sha256);
    this.#links = urls.map((url) => this.#createLink(url));
    this.#runs = Promise.all(this.#links.map((link) => link.run()));
  }

  publish(event: SignedEvent, options?: SendOptions): Promise<readonly PublishOutcome[]> {
    return Promise.all(this.send(event, options));
  }

  send(event: SignedEvent, { signal, only }: SendOptions = {}): readonly Promise<PublishOutcome>[] {
    const parcel = createParcel(event);
    const options: PublishOptions = this.#settings;
    return this.#named(only).map((link) =>
      publishTo(link, this.#learned.get(link)!, parcel, options, signal),
    );
  }

  subscribe(
    filters: readonly Filter[],
    handlers: SubscriptionHandlers,
    only?: readonly string[],
  ): Subscription {
    const links = this.#named(only);
    const feed = new Feed(`n${++this.#subscriptions}`, filters, handlers, links);
    this.#feeds.set(feed.id, feed);
    for (const link of links) feed.ask(link);
    return {
      get caughtUp() {
        return feed.isCaughtUp();
      },
      close: () => {
        if (!this.#feeds.delete(feed.id)) return;
        for (const link of links) link.say('CLOSE', feed.id);
      },
    };
  }

  status(): readonly RelayStatus[] {
    return this.#links.map((link) => ({
      relay: link.url,
      state: link.state,
      failures: link.failures,
      lastError: link.lastError,
      lastNotice: link.lastNotice,
      ...link.counts,
      ...this.#counts.get(link)!,
    }));
  }

  async ready(signal?: AbortSignal): Promise<void> {
    const { clock, openTimeoutMs } = this.#settings;
    const anyOpen = Promise.any(this.#links.map((link) => untilOpen(link))).then(
      () => true,
      () => false,
    );
    if (await within(anyOpen, openTimeoutMs, clock, signal)) return;
    const errors = this.#links.map(
      ({ url, lastError }) => `${url}: ${lastError || 'no answer yet'}`,
    );
    throw new RelayError('relay/none-reachable', `no relay can be reached: ${errors.join('; ')}`, {
      hint: 'check the addresses, and that a relay listens there',
      data: { relays: errors },
    });
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('closed'));
    this.#feeds.clear();
    for (const link of this.#links) link.close();
    await within(this.#runs, GOODBYE_MS, this.#settings.clock);
  }

  /** The links of the relays named; all of them without names. */
  #named(only: readonly string[] | undefined): readonly Link[] {
    return only ? this.#links.filter(({ url }) => only.includes(url)) : this.#links;
  }

  #createLink(url: string): Link {
    const { openTimeoutMs, ...rest } = this.#settings;
    const link: Link = new Link(
      url,
      { ...rest, connectTimeoutMs: openTimeoutMs },
      {
        onOpen: () => {
          for (const feed of this.#feeds.values()) feed.ask(link);
        },
        onFrame: (frame) => this.#read(link, frame),
        onDown: () => {
          for (const feed of this.#feeds.values()) feed.forget(link);
        },
      },
    );
    this.#learned.set(link, createLearned());
    this.#counts.set(link, { events: 0, duplicates: 0, strays: 0, refused: 0 });
    return link;
  }

  #read(link: Link, frame: RelayFrame): void {
    if (frame.type !== 'event' && frame.type !== 'eose' && frame.type !== 'closed') return;
    const feed = this.#feeds.get(frame.subscription);
    const counts = this.#counts.get(link)!;
    if (!feed) {
      if (frame.type === 'event') counts.strays++;
    } else if (frame.type === 'event') feed.take(link, frame.event, this.#inbox, counts);
    else if (frame.type === 'eose') feed.catchUp(link);
    else void this.#reopen(feed, link, frame.message);
  }

  /** Asks again after a CLOSED that may pass; one that will not is left until the next connection. */
  async #reopen(feed: Feed, link: Link, message: string): Promise<void> {
    const { clock, retry, random } = this.#settings;
    link.lastNotice = message;
    const closings = feed.close(link);
    const { status, transient } = judgeAnswer(false, message);
    if (closings >= retry.maxAttempts || !(transient || status === 'throttled')) {
      feed.lose(link, message);
      return;
    }
    const delayMs = status === 'throttled' ? THROTTLE_MS : backoffMs(retry, closings, random);
    try {
      await clock.sleep(delayMs, this.#stop.signal);
    } catch {
      return; // closed while waiting
    }
    if (this.#feeds.get(feed.id) === feed && feed.isClosedBy(link)) feed.ask(link);
  }
}

/** Resolves when the link is open, rejects when its retries are exhausted. */
async function untilOpen(link: Link): Promise<void> {
  for (;;) {
    const opened = await link.opened();
    if (opened.open) return;
    if (link.isDown) throw new RelayError('relay/unreachable', opened.message);
  }
}
