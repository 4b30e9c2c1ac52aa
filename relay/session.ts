/**
 * One connection: processes its messages in turn with others, holds its subscriptions, and limits writes to slow
 * readers.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { RawData, WebSocket } from 'ws';
import { addEvent } from './adding.ts';
import { authenticate } from './authenticating.ts';
import type { Connection, Core, Sync } from './core.ts';
import type { Subscription } from './event-index.ts';
import { type Adversary, createAdversary } from './faults/adversary.ts';
import { createFaultPlan, type Delays } from './faults/plan.ts';
import type { Limits } from './limits.ts';
import {
  EventFrames,
  type Frame,
  type Message,
  messageFrame,
  readMessage,
  type Unreadable,
} from './messages.ts';
import { Outbox } from './outbox.ts';
import type { AuthMode } from './policies.ts';
import { closeSubscription, countStored, forget, openSubscription, refuse } from './querying.ts';
import { closeIdleSyncs, closeSync, continueSync, openSync } from './syncing.ts';
import type { Account, Work } from './turns.ts';

/** Maximum keys that one connection may authenticate. */
const MAX_KEYS = 64;

/** Maximum bytes of queued messages that are read ahead. */
const INBOX_BYTES = 256 << 10;
/** Cost in units of the event loop: per message, per signature, and bytes per unit to receive and to parse. */
const [MESSAGE_UNITS, SIGNATURE_UNITS] = [10, 250] as const;
const [RECEIVED_BYTES, EVENT_BYTES, QUERY_BYTES] = [256, 256, 32] as const;
/** Maximum messages rejected as expensive to parse; beyond them, the connection is closed. */
const MAX_UNREADABLE = 32;

/** Identity of a connection: its number, its source, and the account of its work. */
export interface Origin {
  readonly number: number;
  readonly address: string;
  readonly isNear: boolean;
  readonly account: Account;
  /** Hosts, with ports, by which a URL may name this relay. */
  readonly hosts: ReadonlySet<string>;
}

/** A queued message. */
interface Unread {
  readonly bytes: Buffer;
  readonly isBinary: boolean;
}

/** Returns host and port of a WebSocket URL. */
export const hostOf = (url: string): string | undefined =>
  /^wss?:/i.test(url) && URL.canParse(url) ? new URL(url).host : undefined;

export class Session implements Connection {
  readonly number: number;
  readonly core: Core;
  readonly keys = new Set<string>();
  readonly adversary: Adversary;
  readonly subscriptions = new Map<string, Subscription>();
  readonly syncs = new Map<string, Sync>();
  readonly #ws: WebSocket;
  readonly #socket: Socket;
  readonly #origin: Origin;
  readonly #plan: () => Delays;
  readonly #outbox: Outbox;
  /** Each cancels a delayed delivery. */
  readonly #timers = new Set<() => void>();
  #inbox: Unread[] = [];
  #inboxBytes = 0;
  #isReading = false;
  /** Bytes read from the socket when the last complete message arrived. */
  #wholeBytes = 0;
  #heardMs: number;
  #framesIn = 0;
  #unreadable = 0;
  #challenge: string | undefined;

  constructor(core: Core, ws: WebSocket, socket: Socket, origin: Origin) {
    const { number } = origin;
    this.core = core;
    this.number = number;
    this.#ws = ws;
    this.#socket = socket;
    this.#wholeBytes = socket.bytesRead;
    this.#heardMs = core.nowMs();
    this.#origin = origin;
    this.#plan = createFaultPlan(core.faults, core.seed, number);
    this.adversary = createAdversary(core.faults, core.seed, number);
    this.#outbox = new Outbox(ws, socket, core.faults.bandwidth, core.setTimer);
    ws.on('message', (data, isBinary) => this.#hear(data, isBinary));
    ws.on('pong', () => {
      this.#heardMs = core.nowMs();
    });
    ws.on('error', () => ws.terminate());
    ws.on('close', () => this.#cleanUp());
    if (core.auth !== 'none') this.challenge();
  }

  get address(): string {
    return this.#origin.address;
  }

  get isNear(): boolean {
    return this.#origin.isNear;
  }

  get account(): Account {
    return this.#origin.account;
  }

  get limits(): Limits {
    return this.core.limits;
  }

  get auth(): AuthMode {
    return this.core.auth;
  }

  challenge(): void {
    if (this.#challenge !== undefined) return;
    this.#challenge = randomBytes(16).toString('hex');
    this.say('AUTH', this.#challenge);
  }

  admit(pubkey: string, challenge: string): boolean {
    if (challenge !== this.#challenge || this.keys.size >= MAX_KEYS) return false;
    this.keys.add(pubkey);
    return true;
  }

  isMine(url: string): boolean {
    return this.#origin.hosts.has(hostOf(url) ?? '');
  }

  nowSeconds(): number {
    return Math.floor(this.nowMs() / 1000);
  }

  nowMs(): number {
    return this.core.nowMs();
  }

  say(...message: readonly unknown[]): void {
    this.#write(messageFrame(message));
  }

  answer(id: string, accepted: boolean, message: string): void {
    const frame = messageFrame(['OK', id, accepted, message]);
    if (!this.core.faults.oks) this.#write(frame);
    else void this.#sendDelayed(frame, () => true);
  }

  deliver(frames: EventFrames, subscription: string): Promise<unknown> | undefined {
    for (const twin of this.adversary.twinsOf(frames.json)) {
      this.core.counts.twinsSent++;
      this.#write(new EventFrames(twin).for(subscription));
    }
    return this.#sendDelayed(frames.for(subscription), () => this.subscriptions.has(subscription));
  }

  drained(isWanted: () => boolean): Promise<void> {
    return this.#outbox.drained(isWanted);
  }

  wake(): void {
    this.#outbox.wake();
  }

  get unsentBytes(): number {
    return this.#outbox.unsent;
  }

  get unreadBytes(): number {
    return this.#inboxBytes + this.#socket.bytesRead - this.#wholeBytes;
  }

  checkIdle(nowMs: number): void {
    closeIdleSyncs(this.syncs, nowMs);
    if (this.#isReading) this.#heardMs = nowMs;
    const silentMs = nowMs - this.#heardMs;
    const idleMs = this.limits.idleSeconds * 1000;
    if (silentMs > 2 * idleMs) this.terminate();
    else if (silentMs > idleMs && this.isOpen) {
      this.#outbox.flush();
      this.#ws.ping();
    }
  }

  close(): void {
    this.#end(1001, 'relay is closing');
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #sendDelayed(frame: Frame, wanted: () => boolean): Promise<unknown> | undefined {
    const delays = this.#plan();
    const { counts } = this.core;
    if (delays.length === 0) counts.deliveriesDropped++;
    if (delays.length > 1) counts.deliveriesDuplicated += delays.length - 1;
    const later: Promise<void>[] = [];
    for (const ms of delays) {
      if (ms <= 0) this.#write(frame);
      else later.push(this.#after(ms).then(() => (wanted() ? this.#write(frame) : undefined)));
    }
    return later.length === 0 ? undefined : Promise.all(later);
  }

  #after(ms: number): Promise<void> {
    this.core.counts.deliveriesDelayed++;
    return new Promise((resolve) => {
      const cancel = this.core.setTimer(() => {
        this.#timers.delete(cancel);
        resolve();
      }, ms);
      this.#timers.add(cancel);
    });
  }

  get isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  #write(frame: Frame): void {
    if (!this.isOpen || this.core.faults.silent) return;
    if (this.#outbox.unsent > this.limits.maxUnsentBytes) {
      this.#ws.terminate();
      return;
    }
    this.core.counts.framesOut++;
    this.core.counts.bytesOut += frame.bytes;
    this.#outbox.send(frame);
  }

  #end(code: number, reason: string): void {
    this.#outbox.flush();
    this.#ws.close(code, reason);
  }

  #cleanUp(): void {
    this.core.sessions.delete(this);
    for (const id of [...this.subscriptions.keys()]) forget(this, id);
    this.syncs.clear();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#outbox.close();
  }

  /** Queues a message until it is this connection's turn. */
  #hear(data: RawData, isBinary: boolean): void {
    if (!this.isOpen) return;
    const bytes = data as Buffer; // `ws` delivers one Buffer per message by default
    this.core.counts.framesIn++;
    this.core.counts.bytesIn += bytes.length;
    this.#heardMs = this.nowMs();
    this.#wholeBytes = this.#socket.bytesRead;
    this.#inbox.push({ bytes, isBinary });
    this.#inboxBytes += bytes.length;
    if (!this.#isReading) void this.#read();
    else if (this.#inboxBytes > INBOX_BYTES) this.#ws.pause();
  }

  /** Handles the queued messages in order; pauses while it waits for its turn, the disk or the reader. */
  async #read(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#inbox.shift(); next; next = this.#inbox.shift()) {
      await this.#hold(this.core.turns.next(this.account));
      this.#inboxBytes -= next.bytes.length;
      const work = this.#answer(next);
      if (work) await this.core.turns.run(this.account, work);
      this.#failOnPurpose();
      if (this.core.log?.isBehind) await this.#hold(this.core.log.settled());
      if (this.#outbox.isUnread) await this.#hold(this.#outbox.caughtUp());
    }
    this.#isReading = false;
    if (this.#ws.isPaused) this.#ws.resume();
  }

  async #hold(until: Promise<void> | undefined): Promise<void> {
    if (!until) return;
    if (this.isOpen) this.#ws.pause();
    await until.catch(() => undefined);
  }

  /** Returns the work for one message. Events count even if the connection is gone. */
  #answer({ bytes, isBinary }: Unread): Work<void> | undefined {
    if (!isBinary) return this.#takes(bytes) ? this.#dispatch(bytes) : undefined;
    this.say('NOTICE', 'invalid: binary frames are not read');
    return undefined;
  }

  /** Disconnects after a message, if the faults say so. */
  #failOnPurpose(): void {
    const isLast = ++this.#framesIn === this.core.faults.disconnectAfter;
    if (this.adversary.hangsUp() || isLast) this.#end(1012, 'fault');
  }

  /** Reports whether a message is within the size and rate limits; if not, sends a NOTICE. */
  #takes({ length }: Buffer): boolean {
    const most = this.limits.noticeAboveBytes;
    if (most !== undefined && length > most) {
      this.say('NOTICE', `message too large (${length} > ${most})`);
      return false;
    }
    if (this.#isInTime(length)) return true;
    this.say('NOTICE', 'rate-limited: slow down');
    return false;
  }

  /** Reports whether its address is within its rate limits. */
  #isInTime(length: number): boolean {
    const { messages, publicMessages, publicBytes } = this.core;
    const [address, nowMs] = [this.address, this.nowMs()];
    if (!messages.takes(address, nowMs)) return false;
    if (this.isNear) return true;
    return publicMessages.takes(address, nowMs) && publicBytes.takes(address, nowMs, length);
  }

  #dispatch(bytes: Buffer): Work<void> | undefined {
    const { turns } = this.core;
    turns.spend(this.account, MESSAGE_UNITS + bytes.length / RECEIVED_BYTES);
    const message = readMessage(bytes, this.limits);
    if ('reason' in message) return this.#complain(message);
    const isEvent = message.verb === 'EVENT' || message.verb === 'AUTH';
    const units = isEvent
      ? SIGNATURE_UNITS + bytes.length / EVENT_BYTES
      : bytes.length / QUERY_BYTES;
    turns.spend(this.account, units);
    if (!this.isOpen && !isEvent) return undefined;
    return this.#obey(message, bytes.length);
  }

  #complain({ reason, id, isHostile }: Unreadable): undefined {
    if (isHostile && ++this.#unreadable > MAX_UNREADABLE) {
      this.#end(1008, reason);
      return;
    }
    if (id === undefined) this.say('NOTICE', reason);
    else refuse(this, id, reason);
  }

  #obey({ verb, rest, isPlain }: Message, bytes: number): Work<void> | undefined {
    if (verb === 'EVENT') return addEvent(this, rest[0], isPlain);
    if (verb === 'REQ') return openSubscription(this, rest, bytes);
    if (verb === 'COUNT') return countStored(this, rest);
    if (verb === 'NEG-OPEN' && this.core.profile.dialect.syncs) return openSync(this, rest);
    if (verb === 'NEG-MSG') return continueSync(this, rest);
    if (verb === 'NEG-CLOSE') closeSync(this, rest);
    else if (verb === 'AUTH') authenticate(this, rest[0]);
    else if (verb === 'CLOSE') closeSubscription(this, rest[0]);
    else this.say('NOTICE', 'error: unknown message type');
    return undefined;
  }
}
