/** The sending side of one relay: each event waits for its turn, is answered, and tried again while that can help. */
import {
  anySignal,
  backoffMs,
  type Clock,
  deferred,
  type RetryPolicy,
  unlessAborted,
  within,
} from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { SignedEvent, Signer } from '../event.ts';
import {
  type AnswerVerdict,
  isRateNotice,
  judgeAnswer,
  type PublishAnswer,
  type PublishStatus,
} from './answers.ts';
import type { RelayConnection } from './connection.ts';
import type { RelayFrame } from './frames.ts';
import {
  type FetchInfo,
  type Foreseen,
  Limits,
  type Parcel,
  PUBLIC_EVENT_BYTES,
  type RelayLimits,
} from './limits.ts';
import { PUBLIC_EVENTS_PER_MINUTE, type Token, TokenBucket } from './rates.ts';
import {
  askFor,
  createReadBack,
  createSignIn,
  type ReadBack,
  type SignIn,
  type Stores,
} from './relay-checks.ts';
import { isPrivateRelay } from './relay-urls.ts';

/** What became of one event at one relay. */
export interface PublishOutcome {
  readonly relay: string;
  readonly status: PublishStatus;
  /** The relay's words, or ours when it had none. */
  readonly message: string;
  readonly attempts: number;
  readonly delaysMs: readonly number[];
  /** False where the relay accepted it and is known not to keep what it accepts: as good as refused. */
  readonly kept?: false;
}

/** How `RelaySet.publish` sends an event. */
export interface SendOptions {
  /** Ends waiting; without one a relay that keeps asking for pauses is given up like one that keeps failing. */
  readonly signal?: AbortSignal | undefined;
  readonly only?: readonly string[] | undefined;
  /** Drops the event instead of queueing it: the outcome is `throttled` if the rate limit allows no event now. */
  readonly skipWhenBusy?: boolean | undefined;
  /** For what nobody waits for: it gives way to all else that a relay with a rate gets. */
  readonly isPatient?: boolean | undefined;
}

export interface OutboxOptions {
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly random: () => number;
  /** Wait for an OK, besides the time the event needs at 64 kB/s; default 10 s. */
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
  readonly connection: RelayConnection;
  readonly options: OutboxOptions;
  /** Aborts when the relay set is closed. */
  readonly stop: AbortSignal;
  readonly limits: Limits;
  readonly bucket: TokenBucket;
  readonly readBack: ReadBack;
  readonly signIn: SignIn | undefined;
  readonly #description = deferred<void>();
  /** Resolves when the relay's description has been read, or waited for long enough. */
  readonly described = this.#description.promise;
  /** Subscriptions asked again on this connection after AUTH. */
  readonly #retriedAfterAuth = new Set<string>();
  #hasOpened = false;

  constructor(connection: RelayConnection, options: OutboxOptions, stop: AbortSignal) {
    const { clock, random, auth, maxEventBytes, eventsPerMinute } = options;
    const isPrivate = isPrivateRelay(connection.url);
    const bytes = maxEventBytes ?? (isPrivate ? 0 : PUBLIC_EVENT_BYTES);
    const rate = eventsPerMinute ?? (isPrivate ? 0 : PUBLIC_EVENTS_PER_MINUTE);
    const perMinute = rate || Number.POSITIVE_INFINITY;
    this.connection = connection;
    this.options = options;
    this.stop = stop;
    this.limits = new Limits(bytes || Number.POSITIVE_INFINITY, maxEventBytes !== undefined);
    this.bucket = new TokenBucket({ clock, random, perMinute });
    this.readBack = createReadBack(connection, clock, random, stop);
    this.signIn = auth && createSignIn(connection, auth, clock);
  }

  /** Publishes until there is a verdict. Aborted, it gives the latest refusal, or rejects with `signal.reason`. */
  async publish(parcel: Parcel, options: SendOptions): Promise<PublishOutcome> {
    options.signal?.throwIfAborted();
    const { signal, release } = anySignal(this.stop, options.signal);
    const publishing = new Publishing(this, parcel, signal);
    try {
      const { skipWhenBusy: early = false, isPatient = false } = options;
      return await publishing.run({ up: options.signal === undefined, early, way: isPatient });
    } catch (error) {
      if (options.signal?.aborted && publishing.refused)
        return publishing.outcome(publishing.refused);
      options.signal?.throwIfAborted();
      if (!this.stop.aborted) throw error;
      return publishing.outcome(publishing.refused ?? { status: 'unreachable', message: 'closed' });
    } finally {
      publishing.giveBack();
      release();
    }
  }

  workFor(kind: number): number {
    return this.limits.workFor(kind);
  }

  status(): OutboxStatus {
    const { limits, bucket, readBack } = this;
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
    const { bucket, signIn } = this;
    if (frame.type === 'auth') signIn?.hear(frame.challenge);
    if (frame.type === 'notice' && isRateNotice(frame.message)) bucket.refuse();
  }

  down(): void {
    const { connection, limits, bucket, signIn } = this;
    limits.unlock();
    signIn?.forget();
    this.#retriedAfterAuth.clear();
    if (connection.isOverloaded) bucket.refuse(undefined, connection.retryMs);
  }

  /** Whether a subscription closed as `auth-required` is worth asking again: once per connection, after AUTH. */
  async mayRetryAfterAuth(subscription: string): Promise<boolean> {
    const { signIn, stop } = this;
    if (!signIn || this.#retriedAfterAuth.has(subscription)) return false;
    this.#retriedAfterAuth.add(subscription);
    try {
      return (await signIn.prove(stop)) === undefined;
    } catch (error) {
      if (stop.aborted) return false;
      throw error;
    }
  }

  async #readInfo(): Promise<void> {
    const { connection, limits, stop } = this;
    const { clock, fetchInfo } = this.options;
    try {
      if (!fetchInfo) return;
      const reading = fetchInfo(connection.url, stop).then((info) => {
        if (info.ok) limits.readInfo(info.value);
      });
      await within(reading, DESCRIPTION_MS, clock, stop);
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      this.#description.settle();
    }
  }
}

interface Try extends AnswerVerdict {
  readonly message: string;
  readonly reconnectMs?: number;
}

const UPLINK_BYTES_PER_MS = 64;

export function createParcel(event: SignedEvent): Parcel {
  const frame = JSON.stringify(['EVENT', event]);
  return { event, frame, bytes: utf8(frame).length };
}

/** What one publication gives: up, early, or way to others. */
interface Gives {
  readonly up: boolean;
  readonly early: boolean;
  readonly way: boolean;
}

class Publishing {
  readonly #outbox: Outbox;
  readonly #parcel: Parcel;
  readonly #signal: AbortSignal;
  readonly #delaysMs: number[] = [];
  /** What the relay said last, when it was no to this try alone. */
  refused: Foreseen | undefined;
  #attempts = 0;
  /** Tries that failed for a passing reason, and pauses the relay asked for. */
  #failures = 0;
  #pauses = 0;
  #token: Token | undefined;
  #hasProved = false;
  readonly #noticeBefore: string;

  constructor(outbox: Outbox, parcel: Parcel, signal: AbortSignal) {
    this.#outbox = outbox;
    this.#parcel = parcel;
    this.#signal = signal;
    this.#noticeBefore = outbox.connection.lastNotice;
  }

  outcome({ status, message }: Foreseen): PublishOutcome {
    const { connection, readBack } = this.#outbox;
    const tries = { attempts: this.#attempts, delaysMs: this.#delaysMs };
    if (status !== 'accepted' || readBack.stores !== 'no') {
      return { relay: connection.url, status, message, ...tries };
    }
    const words = `this relay says yes and does not keep events, ${readBack.missing} were missing`;
    const fullMessage = message === '' ? words : `${message}; ${words}`;
    return { relay: connection.url, status, message: fullMessage, ...tries, kept: false };
  }

  giveBack(): void {
    if (this.#token !== undefined) this.#outbox.bucket.giveBack();
  }

  async run(gives: Gives): Promise<PublishOutcome> {
    const { bucket } = this.#outbox;
    const { clock, retry, random } = this.#outbox.options;
    for (;;) {
      const useless = this.#foresee();
      if (useless) return this.outcome(useless);
      if (gives.way) this.#token ??= await bucket.takePatiently(this.#signal);
      this.#token ??= bucket.takeNow();
      if (!gives.early) this.#token ??= await bucket.take(this.#signal);
      if (this.#token === undefined) return this.outcome(wordBusy(bucket));
      const tried = await this.#try();
      if (!tried) continue; // something was learned while waiting
      const { status, transient, reconnectMs } = tried;
      if (status !== 'accepted') this.refused = tried;
      if (status === 'auth-needed') {
        await this.#prove(tried.message);
        continue;
      }
      const isLast = transient ? ++this.#failures >= retry.maxAttempts : status !== 'throttled';
      if (isLast || (transient && this.#outbox.connection.isDown)) return this.outcome(tried);
      if (status === 'throttled') {
        if (gives.early || (gives.up && ++this.#pauses >= retry.maxAttempts)) {
          return this.outcome(tried);
        }
        this.#delaysMs.push(bucket.waitMs); // waited for with the next token
        continue;
      }
      const delayMs = reconnectMs ?? backoffMs(retry, this.#failures, random);
      this.#delaysMs.push(delayMs);
      if (reconnectMs === undefined) await clock.sleep(delayMs, this.#signal);
    }
  }

  #foresee(): Foreseen | undefined {
    const { connection, limits } = this.#outbox;
    if (connection.isDown)
      return { status: 'unreachable', message: connection.lastError || 'closed' };
    return limits.foresee(this.#parcel);
  }

  async #try(): Promise<Try | undefined> {
    const letGo = this.#outbox.connection.hold();
    try {
      return await this.#tryConnected();
    } finally {
      letGo();
    }
  }

  /** One try; nothing when it turns out, once connected, that none is worth making. */
  async #tryConnected(): Promise<Try | undefined> {
    const { connection, limits, bucket, readBack, described } = this.#outbox;
    const opened = await connection.opened(this.#signal);
    if (!opened.open) {
      this.#attempts++;
      return unreachable(opened.message, opened.retryMs);
    }
    await unlessAborted(described, this.#signal);
    if (this.#foresee()) return undefined;
    this.#attempts++;
    const tried = await this.#send();
    limits.learn(this.#parcel, tried, tried.message);
    if (tried.status === 'throttled') bucket.refuse(this.#token);
    // a relay that is full, or was gone, did not count it
    if (tried.status !== 'unreachable') this.#token = undefined;
    if (tried.status === 'accepted') readBack.note(this.#parcel.event);
    return tried;
  }

  async #send(): Promise<Try> {
    const { connection } = this.#outbox;
    const { clock, publishTimeoutMs } = this.#outbox.options;
    const { event, frame, bytes } = this.#parcel;
    const { answer, forget } = connection.answers.expectOk(event.id);
    try {
      if (!(await connection.sendWhenDrained(frame, bytes, this.#signal))) {
        return unreachable('connection ended', connection.retryMs);
      }
      const timeoutMs = publishTimeoutMs + bytes / UPLINK_BYTES_PER_MS;
      const heard = await within(answer, timeoutMs, clock, this.#signal);
      if (heard) return this.#read(heard);
    } finally {
      forget();
    }
    if ((await askFor(connection, event, clock, this.#signal)) === 'there') {
      return { status: 'accepted', message: 'no answer, but the relay has it' };
    }
    const notice =
      connection.lastNotice === this.#noticeBefore ? '' : `; it said: ${connection.lastNotice}`;
    return { status: 'no-verdict', transient: true, message: `no answer in time${notice}` };
  }

  #read(answer: PublishAnswer): Try {
    const { connection, limits } = this.#outbox;
    if (answer.type === 'ok') {
      const verdict = judgeAnswer(answer.accepted, answer.message);
      const bits = limits.workFor(this.#parcel.event.kind);
      const isKnown = bits > 0 && Number.isFinite(bits);
      const namesWork = verdict.status !== 'pow-needed' || verdict.bits !== undefined || !isKnown;
      const message = namesWork ? answer.message : `${answer.message} (${bits} bits)`;
      return { ...verdict, message };
    }
    if (answer.code === 1009) {
      return { status: 'refused', refuses: 'size', message: 'too large: the relay hung up (1009)' };
    }
    // the connection is about to wait, or already connecting again
    return unreachable(answer.message, connection.retryMs);
  }

  /** Shows the relay whose key this is, once per event; where that does not help, its kind is not sent again. */
  async #prove(refusal: string): Promise<void> {
    const { signIn, limits } = this.#outbox;
    let message = refusal;
    if (signIn && !this.#hasProved) {
      this.#hasProved = true;
      const failure = await signIn.prove(this.#signal);
      if (failure === undefined) return;
      message = `${refusal} (${failure})`;
    }
    limits.lock(this.#parcel.event.kind, message);
  }
}

const unreachable = (message: string, reconnectMs: number): Try => ({
  status: 'unreachable',
  transient: true,
  message,
  reconnectMs,
});

function wordBusy({ perMinute, waitMs }: TokenBucket): Foreseen {
  const rate = Number(perMinute.toFixed(1));
  const seconds = Math.ceil(waitMs / 1000);
  const wait = seconds > 0 ? `, the next in ${seconds} s` : ', others are in line';
  return { status: 'throttled', message: `this relay gets ${rate} events a minute${wait}` };
}
