/** Sends events to one relay: queues each within the rate limit, waits for the OK, and retries while that may help. */
import { anySignal, backoffMs, deferred, unlessAborted, within } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { SignedEvent, Signer } from '../event.ts';
import { type AnswerVerdict, isRateNotice, judgeAnswer, type PublishAnswer } from './answers.ts';
import type { ConnectionOptions, RelayConnection } from './connection.ts';
import type { RelayFrame } from './frames.ts';
import {
  type FetchInfo,
  type Foreseen,
  Limits,
  type Parcel,
  PUBLIC_EVENT_BYTES,
  type RelayLimits,
} from './limits.ts';
import type { PublishOutcome, SendOptions } from './publish-outcome.ts';
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

export interface OutboxOptions extends Pick<ConnectionOptions, 'clock' | 'retry' | 'random'> {
  /** Time to wait for an OK, not counting the upload at 64 kB/s; default 10 s. */
  readonly publishTimeoutMs: number;
  /** Initial rate limit in events per minute, 0 for none; default 5 at public relays, none at private ones. */
  readonly eventsPerMinute?: number;
  /**
   * Largest event to send, in bytes of JSON, 0 for no limit; default 65,536 at public relays, none at private ones.
   */
  readonly maxEventBytes?: number;
  /** Fetches each relay's description once; without it, limits are learned from answers only. */
  readonly fetchInfo?: FetchInfo;
  /** Key for relays that require AUTH (NIP-42); without it, events that need AUTH are not sent. */
  readonly auth?: Signer;
}

/** What is known of a relay from sending to it. */
export interface OutboxStatus {
  readonly limits: RelayLimits;
  /** Whether events that it accepted could be read back. */
  readonly stores: Stores;
  readonly missing: number;
  /** Its latest refusal because of an event's date; empty if it has accepted an event since. */
  readonly clockComplaint: string;
}

/** How long the first event waits for the relay's description, once connected. */
const DESCRIPTION_MS = 1000;

export class Outbox {
  readonly connection: RelayConnection;
  readonly options: OutboxOptions;
  /** Aborted when the relay set is closed. */
  readonly stop: AbortSignal;
  readonly limits: Limits;
  readonly bucket: TokenBucket;
  readonly readBack: ReadBack;
  readonly signIn: SignIn | undefined;
  readonly #description = deferred<void>();
  /** Resolves when the relay's description was read or has timed out. */
  readonly described = this.#description.promise;
  /** Subscriptions that were requested again on this connection after AUTH. */
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
    this.limits = new Limits(bytes || Number.POSITIVE_INFINITY, maxEventBytes !== undefined, () =>
      clock.now(),
    );
    this.bucket = new TokenBucket({ clock, random, perMinute });
    this.readBack = createReadBack(connection, clock, random, stop);
    this.signIn = auth && createSignIn(connection, auth, clock);
  }

  /** Publishes until there is a verdict. If aborted, returns the latest refusal or rejects with `signal.reason`. */
  async publish(parcel: Parcel, options: SendOptions): Promise<PublishOutcome> {
    options.signal?.throwIfAborted();
    const { signal, release } = anySignal(this.stop, options.signal);
    const publishing = new Publishing(this, parcel, signal);
    try {
      const { skipWhenBusy = false, isPatient = false } = options;
      return await publishing.run({
        givesUp: options.signal === undefined,
        dropsIfBusy: skipWhenBusy,
        yieldsToOthers: isPatient,
      });
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

  /**
   * Reports whether to repeat a subscription closed as `auth-required`: once per connection, after successful AUTH.
   */
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

/** How a publication waits. */
interface Patience {
  /** Gives up after several pauses that the relay asked for. */
  readonly givesUp: boolean;
  readonly dropsIfBusy: boolean;
  readonly yieldsToOthers: boolean;
}

class Publishing {
  readonly #outbox: Outbox;
  readonly #parcel: Parcel;
  readonly #signal: AbortSignal;
  readonly #delaysMs: number[] = [];
  /** The relay's latest refusal that concerned this try only. */
  refused: Foreseen | undefined;
  #attempts = 0;
  /** Failed tries for a transient reason. */
  #failures = 0;
  #pauses = 0;
  #token: Token | undefined;
  #hasProved = false;
  /** The relay accepted the event, and did not have it afterwards. */
  #isLost = false;
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
    if (!this.#isLost) return { relay: connection.url, status, message, ...tries };
    const { missing } = readBack;
    const words = `this relay accepts events and does not store them, ${missing} were missing`;
    const fullMessage = message === '' ? words : `${message}; ${words}`;
    return { relay: connection.url, status, message: fullMessage, ...tries, kept: false };
  }

  giveBack(): void {
    if (this.#token !== undefined) this.#outbox.bucket.giveBack();
  }

  async run(patience: Patience): Promise<PublishOutcome> {
    const { bucket } = this.#outbox;
    const { clock, retry, random } = this.#outbox.options;
    for (;;) {
      const useless = this.#foresee();
      if (useless) return this.outcome(useless);
      if (patience.yieldsToOthers) this.#token ??= await bucket.takePatiently(this.#signal);
      this.#token ??= bucket.takeNow();
      if (!patience.dropsIfBusy) this.#token ??= await bucket.take(this.#signal);
      if (this.#token === undefined) return this.outcome(wordBusy(bucket));
      const tried = await this.#try();
      if (!tried) continue; // limits may have been learned while waiting
      const { status, transient, reconnectMs } = tried;
      if (status !== 'accepted') this.refused = tried;
      if (status === 'auth-needed') {
        await this.#prove(tried.message);
        continue;
      }
      const isLast = transient ? ++this.#failures >= retry.maxAttempts : status !== 'throttled';
      if (isLast || (transient && this.#outbox.connection.isDown)) return this.outcome(tried);
      if (status === 'throttled') {
        if (patience.dropsIfBusy || (patience.givesUp && ++this.#pauses >= retry.maxAttempts)) {
          return this.outcome(tried);
        }
        this.#delaysMs.push(bucket.waitMs); // the wait for the next token includes the pause
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

  /** Makes one try; undefined if the limits learned on connecting rule the event out. */
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
    // a relay that was full or unreachable did not count the event
    if (tried.status !== 'unreachable') this.#token = undefined;
    const isAccepted = tried.status === 'accepted';
    this.#isLost = isAccepted && !(await readBack.counts(this.#parcel.event, this.#signal));
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
      this.#outbox.readBack.notePresence();
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
    // the connection is about to wait, or already reconnecting
    return unreachable(answer.message, connection.retryMs);
  }

  /** Authenticates once per event; if that fails, events of this kind are not sent to the relay any more. */
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
