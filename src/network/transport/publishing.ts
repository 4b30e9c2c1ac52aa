/** One event to one relay: sent when its turn comes, answered, and tried again while that can help. */

import {
  anySignal,
  backoffMs,
  type Clock,
  type RetryPolicy,
  unlessAborted,
  within,
} from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { SignedEvent } from '../event.ts';
import { type Answer, judgeAnswer, type PublishStatus, type Verdict } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import type { Foreseen, Limits, Parcel } from './limits.ts';
import type { Token, TokenBucket } from './rates.ts';
import { askFor, type ReadBack, type SignIn } from './relay-checks.ts';

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
  /** For what is worthless when late: `throttled` at once where the relay's rate has no room now. */
  readonly skipWhenBusy?: boolean | undefined;
  /** For what nobody waits for: it gives way to all else that a relay with a rate gets. */
  readonly isPatient?: boolean | undefined;
}

/** Everything one relay is published through. */
export interface Outlet {
  readonly connection: RelayConnection;
  readonly limits: Limits;
  readonly bucket: TokenBucket;
  readonly readBack: ReadBack;
  readonly signIn: SignIn | undefined;
  /** Resolves when the relay's description has been read, or waited for long enough. */
  readonly described: Promise<unknown>;
  readonly clock: Clock;
  readonly retry: RetryPolicy;
  readonly random: () => number;
  readonly publishTimeoutMs: number;
  readonly stop: AbortSignal;
}

interface Try extends Verdict {
  readonly message: string;
  readonly reconnectMs?: number;
}

const UPLINK_BYTES_PER_MS = 64;

export function createParcel(event: SignedEvent): Parcel {
  const frame = JSON.stringify(['EVENT', event]);
  return { event, frame, bytes: utf8(frame).length };
}

/** Publishes until there is a verdict. Aborted, it gives the latest refusal, or rejects with `signal.reason`. */
export async function publishTo(
  outlet: Outlet,
  parcel: Parcel,
  options: SendOptions,
): Promise<PublishOutcome> {
  options.signal?.throwIfAborted();
  const { signal, release } = anySignal(outlet.stop, options.signal);
  const publishing = new Publishing(outlet, parcel, signal);
  try {
    const { skipWhenBusy: early = false, isPatient = false } = options;
    const gives = { up: options.signal === undefined, early, way: isPatient };
    return await publishing.run(gives);
  } catch (error) {
    if (options.signal?.aborted && publishing.refused)
      return publishing.outcome(publishing.refused);
    options.signal?.throwIfAborted();
    if (!outlet.stop.aborted) throw error;
    return publishing.outcome(publishing.refused ?? { status: 'unreachable', message: 'closed' });
  } finally {
    publishing.giveBack();
    release();
  }
}

/** What one publication gives: up, early, or way to others. */
interface Gives {
  readonly up: boolean;
  readonly early: boolean;
  readonly way: boolean;
}

class Publishing {
  readonly #outlet: Outlet;
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

  constructor(outlet: Outlet, parcel: Parcel, signal: AbortSignal) {
    this.#outlet = outlet;
    this.#parcel = parcel;
    this.#signal = signal;
    this.#noticeBefore = outlet.connection.lastNotice;
  }

  outcome({ status, message }: Foreseen): PublishOutcome {
    const { connection, readBack } = this.#outlet;
    const told = { attempts: this.#attempts, delaysMs: this.#delaysMs };
    if (status !== 'accepted' || readBack.stores !== 'no') {
      return { relay: connection.url, status, message, ...told };
    }
    const words = `this relay says yes and does not keep events, ${readBack.missing} were missing`;
    const said = message === '' ? words : `${message}; ${words}`;
    return { relay: connection.url, status, message: said, ...told, kept: false };
  }

  giveBack(): void {
    if (this.#token !== undefined) this.#outlet.bucket.giveBack();
  }

  async run(gives: Gives): Promise<PublishOutcome> {
    const { bucket, clock, retry } = this.#outlet;
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
      if (isLast || (transient && this.#outlet.connection.isDown)) return this.outcome(tried);
      if (status === 'throttled') {
        if (gives.early || (gives.up && ++this.#pauses >= retry.maxAttempts)) {
          return this.outcome(tried);
        }
        this.#delaysMs.push(bucket.waitMs); // waited for with the next token
        continue;
      }
      const delayMs = reconnectMs ?? backoffMs(retry, this.#failures, this.#outlet.random);
      this.#delaysMs.push(delayMs);
      if (reconnectMs === undefined) await clock.sleep(delayMs, this.#signal);
    }
  }

  #foresee(): Foreseen | undefined {
    const { connection, limits } = this.#outlet;
    if (connection.isDown)
      return { status: 'unreachable', message: connection.lastError || 'closed' };
    return limits.foresee(this.#parcel);
  }

  async #try(): Promise<Try | undefined> {
    const letGo = this.#outlet.connection.hold();
    try {
      return await this.#tryConnected();
    } finally {
      letGo();
    }
  }

  /** One try; nothing when it turns out, once connected, that none is worth making. */
  async #tryConnected(): Promise<Try | undefined> {
    const { connection, limits, bucket, readBack, described } = this.#outlet;
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
    const { connection, clock, publishTimeoutMs } = this.#outlet;
    const { event, frame, bytes } = this.#parcel;
    const { answer, forget } = connection.answers.expectOk(event.id);
    try {
      if (!(await connection.sendWhenRoom(frame, bytes, this.#signal))) {
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

  #read(answer: Answer): Try {
    const { connection, limits } = this.#outlet;
    if (answer.type === 'ok') {
      const verdict = judgeAnswer(answer.accepted, answer.message);
      const bits = limits.workFor(this.#parcel.event.kind);
      const isKnown = bits > 0 && Number.isFinite(bits);
      const saysWork = verdict.status !== 'pow-needed' || verdict.bits !== undefined || !isKnown;
      const message = saysWork ? answer.message : `${answer.message} (${bits} bits)`;
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
    const { signIn, limits } = this.#outlet;
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
