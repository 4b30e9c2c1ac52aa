/**
 * The WebSocket connection to one relay: stays connected while a caller holds it, reconnects after a loss, and limits
 * what it receives and queues.
 */

import {
  backoffMs,
  type Clock,
  deferred,
  type RetryPolicy,
  slept,
  unlessAborted,
} from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { Answers, isCountNotice, isOverloadError, isRateNotice, isSizeNotice } from './answers.ts';
import { parseFrame, type RelayFrame } from './frames.ts';
import { RelayMeter, type RelayQuota } from './rates.ts';
import type { OpenSocket, Socket } from './socket.ts';

export interface ConnectionOptions {
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  /** For connecting and publishing; default 4 attempts from 250 ms, doubling up to 2 s, with full jitter. */
  readonly retry: RetryPolicy;
  /** Returns a number in [0, 1) for jitter; default uses the platform's random bytes. */
  readonly random: () => number;
  readonly connectTimeoutMs: number;
  /** Longest wait between attempts once `retry` is exhausted; default 30 s. The connection never gives up. */
  readonly reconnectMaxMs: number;
  /** Longer frames are dropped without parsing; default 32 MiB. */
  readonly maxFrameBytes: number;
  /** Longer events are skipped without blaming the relay; default no limit. */
  readonly longestEventBytes?: number | undefined;
  /** Limits of what the relay may send; if it exceeds them, it is disconnected for a while. */
  readonly quota: RelayQuota;
}

export interface ConnectionHandlers {
  onOpen(): void;
  onFrame(frame: RelayFrame): void;
  /** An attempt failed or the connection ended. */
  onDown(): void;
}

/** `idle`: no holder needs the connection. */
export type ConnectionState = 'idle' | 'connecting' | 'open' | 'waiting' | 'closed';

/** Result of a connection attempt; `retryMs` is the wait before the next one. */
export type ConnectionOpened =
  | { readonly open: true }
  | { readonly open: false; readonly message: string; readonly retryMs: number };

interface Ended {
  readonly opened: boolean;
  readonly code: number;
  readonly message: string;
}

/** Maximum unsent bytes in the socket before large frames wait. */
const MAX_UNSENT_BYTES = 1 << 20;
const UNSENT_POLL_MS = 10;
/** First wait once `retry` is exhausted. */
const SLOW_START_MS = 1000;
/** A connection without holders is closed after this time, so that relays with few slots can serve others. */
const IDLE_MS = 500;
/** Number of notices and waits kept for reports, and of closed subscriptions. */
const REMEMBERED = 100;
/** Subscriptions closed again at once, and the pause before others: more could exceed the relay's rate limit. */
const REPEATED_CLOSES = 20;
const REPEAT_MS = 1000;
/** Pause after HTTP 429 or 503, lengthened by up to half at random. */
const OVERLOAD_MS = 60_000;

export class RelayConnection {
  /** The relay's address without secrets; names the relay in messages. */
  readonly url: string;
  readonly answers = new Answers();
  readonly counts = { attempts: 0, opens: 0, framesIn: 0, garbage: 0, bytesIn: 0, bytesOut: 0 };
  lastError = '';
  lastNotice = '';
  readonly notices: string[] = [];
  retryMs = 0;
  readonly delaysMs: number[] = [];
  readonly #options: ConnectionOptions;
  readonly #handlers: ConnectionHandlers;
  readonly #meter: RelayMeter;
  readonly #stop = new AbortController();
  #state: ConnectionState = 'idle';
  #holders = 0;
  /** When the last holder released; undefined while no idle check is scheduled. */
  #letGoMs: number | undefined;
  #wake: () => void = () => {};
  #isLeaving = false;
  #socket: Socket | undefined;
  #failures = 0;
  #pauseMs = 0;
  #waiting: ((opened: ConnectionOpened) => void)[] = [];
  /** Ids of closed subscriptions, in the order of their last CLOSE; an id is never used again. */
  readonly #closedIds: unknown[] = [];
  #repeatedMs = Number.NEGATIVE_INFINITY;

  constructor(url: string, options: ConnectionOptions, handlers: ConnectionHandlers) {
    this.url = url;
    this.#options = options;
    this.#handlers = handlers;
    this.#meter = new RelayMeter(options.quota, options.clock);
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Failed attempts, and connections that ended before they were useful, since the last useful one. */
  get failures(): number {
    return this.#failures;
  }

  /** Whether retries are exhausted, so that callers should not wait for this relay. */
  get isDown(): boolean {
    if (this.#state === 'closed') return true;
    return this.#state === 'waiting' && this.#failures >= this.#options.retry.maxAttempts;
  }

  /** Whether the latest attempt failed with HTTP 429 or 503; always false with `jitter: 'none'`. */
  get isOverloaded(): boolean {
    return this.#options.retry.jitter !== 'none' && isOverloadError(this.lastError);
  }

  /** Keeps the connection open until the returned function is called. */
  hold(): () => void {
    this.#holders++;
    if (this.#state === 'idle') this.#state = 'connecting';
    this.#wake();
    let isActive = true;
    return () => {
      if (isActive && --this.#holders === 0) this.#letGo();
      isActive = false;
    };
  }

  #letGo(): void {
    const { clock } = this.#options;
    const isIdleCheckScheduled = this.#letGoMs !== undefined;
    this.#letGoMs = clock.now();
    if (!isIdleCheckScheduled) void this.#leaveWhenIdle();
  }

  async #leaveWhenIdle(): Promise<void> {
    const { clock } = this.#options;
    for (let ms = IDLE_MS; ms > 0; ms = this.#letGoMs! + IDLE_MS - clock.now()) {
      if (!(await slept(clock, ms, this.#stop.signal))) return;
    }
    this.#letGoMs = undefined;
    if (this.#holders > 0 || this.#state !== 'open') return;
    this.#isLeaving = true;
    this.#state = 'connecting';
    this.#socket?.close();
  }

  /** Connects while there are holders, and reconnects after each loss; returns after `close`. */
  async run(): Promise<void> {
    while (await this.#isWanted()) {
      this.#state = 'connecting';
      this.counts.attempts++;
      const ended = await this.#connectOnce();
      this.#socket = undefined;
      if (this.#isLeaving && !this.#stop.signal.aborted) {
        this.#isLeaving = false;
        this.answers.drop(ended.code, 'left');
        this.#handlers.onDown();
        continue;
      }
      this.#failures++;
      this.lastError = ended.message;
      this.retryMs = Math.max(this.#retryMs(), this.#pauseMs);
      this.#pauseMs = 0;
      remember(this.delaysMs, this.retryMs);
      if (!this.#stop.signal.aborted) this.#state = 'waiting';
      this.answers.drop(ended.code, ended.message);
      this.#settle({ open: false, message: ended.message, retryMs: this.retryMs });
      if (this.#stop.signal.aborted) return;
      this.#handlers.onDown();
      if (!(await slept(this.#options.clock, this.retryMs, this.#stop.signal))) return;
    }
  }

  async #isWanted(): Promise<boolean> {
    const { aborted } = this.#stop.signal;
    if (aborted || this.#holders > 0) return !aborted;
    this.#state = 'idle';
    this.#failures = 0;
    const { promise, settle } = deferred<void>();
    this.#wake = () => settle();
    await promise;
    return !this.#stop.signal.aborted;
  }

  /** Resolves with the result of the current or next attempt, or at once if the connection is open. */
  opened(signal?: AbortSignal): Promise<ConnectionOpened> {
    if (this.#state === 'open') return Promise.resolve({ open: true });
    if (this.#state === 'closed') {
      return Promise.resolve({ open: false, message: 'closed', retryMs: 0 });
    }
    return unlessAborted(new Promise((resolve) => this.#waiting.push(resolve)), signal);
  }

  /** Sends a control message; drops it if the connection is not open. */
  say(...message: readonly unknown[]): void {
    const text = JSON.stringify(message);
    if (this.#state !== 'open') return;
    const [verb, id] = message;
    if (verb === 'CLOSE') remember(this.#closedIds, id);
    this.#send(text, utf8(text).length);
  }

  /** Repeats CLOSE, which no relay confirms: one that dropped it counts a subscription that is over. */
  #repeatCloses(): void {
    const nowMs = this.#options.clock.now();
    if (nowMs - this.#repeatedMs < REPEAT_MS) return;
    this.#repeatedMs = nowMs;
    for (const id of this.#closedIds.splice(0, REPEATED_CLOSES)) this.say('CLOSE', id);
  }

  /** Sends a large frame once the socket has drained; returns false if the connection ended before that. */
  async sendWhenDrained(text: string, bytes: number, signal?: AbortSignal): Promise<boolean> {
    const socket = this.#socket;
    while (this.#isCurrent(socket) && socket.bufferedAmount > MAX_UNSENT_BYTES) {
      await this.#options.clock.sleep(UNSENT_POLL_MS, signal);
    }
    if (!this.#isCurrent(socket)) return false;
    this.#send(text, bytes);
    return true;
  }

  /** Counts a fault that no honest relay makes; too many disconnect the relay for a while. */
  blame(): void {
    this.#hangUp(this.#meter.takeFault());
  }

  close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#stop.abort(new Error('closed'));
    this.answers.drop(1000, 'closed');
    this.#settle({ open: false, message: 'closed', retryMs: 0 });
    this.#wake();
    this.#socket?.close();
  }

  /** Ends the connection from our side and pauses before the next attempt. */
  #hangUp(reason: string | undefined): void {
    if (reason === undefined || this.#state !== 'open') return;
    this.#state = 'waiting';
    this.#pauseMs = this.#options.quota.pauseMs;
    this.#failures = Math.max(this.#failures, this.#options.retry.maxAttempts);
    this.#socket?.onerror?.(reason);
    this.#socket?.close();
  }

  #isCurrent(socket: Socket | undefined): socket is Socket {
    return this.#state === 'open' && socket !== undefined && socket === this.#socket;
  }

  #send(text: string, bytes: number): void {
    this.counts.bytesOut += bytes;
    this.#socket?.send(text);
  }

  #settle(opened: ConnectionOpened): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve(opened);
  }

  #retryMs(): number {
    const { retry, random, reconnectMaxMs } = this.#options;
    if (this.isOverloaded) return OVERLOAD_MS * (1 + random() / 2);
    const beyond = this.#failures - retry.maxAttempts;
    if (beyond < 0) return backoffMs(retry, this.#failures, random);
    const initialMs = Math.max(retry.initialMs, SLOW_START_MS);
    return backoffMs({ ...retry, initialMs, maxMs: reconnectMaxMs }, beyond + 1, random);
  }

  #connectOnce(): Promise<Ended> {
    const { openSocket, clock, connectTimeoutMs } = this.#options;
    return new Promise((resolve) => {
      const socket = openSocket(this.url);
      socket.longestEventBytes = this.#options.longestEventBytes;
      this.#socket = socket;
      const timer = new AbortController();
      let opened = false;
      let problem = '';
      socket.onopen = () => {
        opened = true;
        timer.abort();
        if (this.#state !== 'closed') this.#open();
      };
      socket.onmessage = (text, bytes) => this.#read(text, bytes);
      socket.onlong = (bytes) => this.#isWithinQuota(bytes);
      socket.onerror = (message) => {
        problem = message;
      };
      socket.onclose = (code, reason) => {
        timer.abort();
        const ending = opened
          ? `connection ended (${code}${reason && `, ${reason}`})`
          : `no connection`;
        resolve({ opened, code, message: problem === '' ? ending : problem });
      };
      clock.sleep(connectTimeoutMs, timer.signal).then(
        () => {
          problem = `no connection within ${connectTimeoutMs} ms`;
          socket.close();
        },
        () => {}, // it opened or failed in time
      );
    });
  }

  #open(): void {
    this.#state = 'open';
    this.counts.opens++;
    this.#handlers.onOpen();
    this.#settle({ open: true });
  }

  #isWithinQuota(bytes: number): boolean {
    if (this.#state !== 'open') return false;
    this.counts.framesIn++;
    this.counts.bytesIn += bytes;
    const excess = this.#meter.takeFrame(bytes);
    this.#hangUp(excess);
    return excess === undefined;
  }

  #read(text: string | undefined, bytes: number): void {
    if (!this.#isWithinQuota(bytes)) return;
    const readable = text !== undefined && bytes <= this.#options.maxFrameBytes;
    const frame = readable ? parseFrame(text) : undefined;
    if (!frame) {
      this.counts.garbage++;
      this.blame();
      return;
    }
    if (frame.type === 'notice') this.#hear(frame.message);
    else if (frame.type !== 'auth') this.#failures = 0;
    const refuses = frame.type === 'notice' || frame.type === 'closed';
    if (refuses && isCountNotice(frame.message)) this.#repeatCloses();
    if (frame.type === 'ok') this.answers.settleOk(frame.id, frame);
    if (!this.answers.readQuestion(frame)) this.#handlers.onFrame(frame);
  }

  /** Handles a NOTICE. Some relays refuse an event with nothing else, and a NOTICE does not name the event. */
  #hear(notice: string): void {
    this.lastNotice = notice;
    remember(this.notices, notice);
    const prefix = isSizeNotice(notice) ? 'invalid' : isRateNotice(notice) ? 'rate-limited' : '';
    if (prefix === '') return;
    const says = new RegExp(`^\\s*${prefix}\\s*:`, 'i');
    const message = says.test(notice) ? notice : `${prefix}: ${notice}`;
    this.answers.settleOnlyOk({ type: 'ok', accepted: false, message });
  }
}

function remember<T>(list: T[], item: T): void {
  list.push(item);
  if (list.length > REMEMBERED) list.shift();
}
