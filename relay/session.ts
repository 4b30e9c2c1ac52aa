/** One connection: reads frames, keeps its subscriptions, and writes without drowning a slow reader. */
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { addEvent } from './adding.ts';
import { authenticate } from './authenticating.ts';
import type { Connection, Core } from './core.ts';
import type { Copies } from './faults/fault.ts';
import { createMisdeeds, type Misdeeds } from './faults/misdeeds.ts';
import { createFaultPlan } from './faults/plan.ts';
import { EventFrames, type Frame, messageFrame } from './frames.ts';
import type { Limits } from './limits.ts';
import type { Subscription } from './live-index.ts';
import type { IdList } from './negentropy/id-list.ts';
import { Outbox } from './outbox.ts';
import type { AuthMode } from './policies/policy.ts';
import { closeSubscription, countStored, openSubscription } from './querying.ts';
import { closeSync, continueSync, openSync } from './syncing.ts';

/** Keys that one connection may authenticate. */
const MAX_KEYS = 64;

/** Which connection it is, and where it comes from and thinks it goes to. */
interface Origin {
  readonly number: number;
  readonly address: string;
  /** The `Host` header. */
  readonly host: string;
}

const hostOf = (url: string): string | undefined =>
  /^wss?:/i.test(url) && URL.canParse(url) ? new URL(url).host : undefined;

export class Session implements Connection {
  readonly number: number;
  readonly core: Core;
  readonly keys = new Set<string>();
  readonly misdeeds: Misdeeds;
  readonly subscriptions = new Map<string, Subscription>();
  readonly syncs = new Map<string, IdList>();
  readonly #ws: WebSocket;
  readonly #origin: Origin;
  readonly #plan: () => Copies;
  readonly #outbox: Outbox;
  readonly #timers = new Set<NodeJS.Timeout>();
  #framesIn = 0;
  #challenge: string | undefined;

  constructor(core: Core, ws: WebSocket, socket: Duplex, origin: Origin) {
    const { number } = origin;
    this.core = core;
    this.number = number;
    this.#ws = ws;
    this.#origin = origin;
    this.#plan = createFaultPlan(core.faults, core.seed, number);
    this.misdeeds = createMisdeeds(core.faults, core.seed, number);
    this.#outbox = new Outbox(ws, socket, core.faults.bandwidth);
    ws.on('message', (data, isBinary) => this.#read(data, isBinary));
    ws.on('error', () => ws.terminate());
    ws.on('close', () => this.#end());
    if (core.auth !== 'none') this.challenge();
  }

  get address(): string {
    return this.#origin.address;
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
    const host = hostOf(url);
    if (host === undefined) return false;
    const { publicUrl } = this.core;
    return host === hostOf(`ws://${this.#origin.host}`) || host === hostOf(publicUrl ?? '');
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
    else void this.#spread(frame, () => true);
  }

  deliver(frames: EventFrames, subscription: string): Promise<unknown> | undefined {
    for (const twin of this.misdeeds.twinsOf(frames.json)) {
      this.core.counts.twinsSent++;
      this.#write(new EventFrames(twin).for(subscription));
    }
    return this.#spread(frames.for(subscription), () => this.subscriptions.has(subscription));
  }

  room(isWanted: () => boolean): Promise<void> {
    return this.#outbox.room(isWanted);
  }

  wake(): void {
    this.#outbox.wake();
  }

  close(): void {
    this.#ws.close(1001, 'relay is closing');
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #spread(frame: Frame, wanted: () => boolean): Promise<unknown> | undefined {
    const copies = this.#plan();
    const { counts } = this.core;
    if (copies.length === 0) counts.deliveriesDropped++;
    if (copies.length > 1) counts.deliveriesDuplicated += copies.length - 1;
    const later: Promise<void>[] = [];
    for (const ms of copies) {
      if (ms <= 0) this.#write(frame);
      else later.push(this.#after(ms).then(() => (wanted() ? this.#write(frame) : undefined)));
    }
    return later.length === 0 ? undefined : Promise.all(later);
  }

  #after(ms: number): Promise<void> {
    this.core.counts.deliveriesDelayed++;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        resolve();
      }, ms);
      this.#timers.add(timer);
    });
  }

  get #isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  #write(frame: Frame): void {
    if (!this.#isOpen) return;
    if (this.#outbox.unsent > this.limits.maxUnsentBytes) {
      this.#ws.terminate();
      return;
    }
    this.core.counts.framesOut++;
    this.core.counts.bytesOut += frame.bytes;
    this.#outbox.send(frame);
  }

  #end(): void {
    this.core.sessions.delete(this);
    for (const subscription of this.subscriptions.values()) this.core.live.remove(subscription);
    this.subscriptions.clear();
    this.syncs.clear();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#outbox.close();
  }

  #read(data: RawData, isBinary: boolean): void {
    if (!this.#isOpen) return;
    const bytes = data as Buffer; // `ws` gives one Buffer per message unless told otherwise
    this.core.counts.framesIn++;
    this.core.counts.bytesIn += bytes.length;
    this.#framesIn++;
    if (isBinary) this.say('NOTICE', 'invalid: binary frames are not read');
    else if (this.#takes(bytes)) this.#dispatch(bytes);
    if (this.core.log?.isBehind) this.#pause(this.core.log.settled());
    if (this.#outbox.isUnread) this.#pause(this.#outbox.caughtUp());
    const isLast = this.#framesIn === this.core.faults.disconnectAfter;
    if (this.misdeeds.hangsUp() || isLast) this.#ws.close(1012, 'fault');
  }

  /** Reads no more until the disk, or the reader itself, has caught up. */
  #pause(settled: Promise<void>): void {
    if (!this.#isOpen || this.#ws.isPaused) return;
    this.#ws.pause();
    const resume = () => this.#ws.resume();
    void settled.then(resume, resume);
  }

  /** Whether a message is short and rare enough to be looked at; if not, a NOTICE says so. */
  #takes({ length }: Buffer): boolean {
    const most = this.limits.noticeAboveBytes;
    if (most !== undefined && length > most) {
      this.say('NOTICE', `message too large (${length} > ${most})`);
      return false;
    }
    if (this.core.messages.takes(this.#origin.address, this.core.nowMs())) return true;
    this.say('NOTICE', 'rate-limited: slow down');
    return false;
  }

  #dispatch(bytes: Buffer): void {
    const text = bytes.toString();
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      this.say('NOTICE', 'invalid: message is not JSON');
      return;
    }
    if (!Array.isArray(message)) {
      this.say('NOTICE', 'invalid: message is not a list');
      return;
    }
    const [verb, ...rest] = message as unknown[];
    if (verb === 'EVENT') addEvent(this, rest[0], !text.includes('\\'));
    else if (verb === 'REQ') void openSubscription(this, rest, bytes.length);
    else if (verb === 'COUNT') countStored(this, rest);
    else if (verb === 'NEG-OPEN' && this.core.profile.manners.syncs) openSync(this, rest);
    else if (verb === 'NEG-MSG') continueSync(this, rest);
    else if (verb === 'NEG-CLOSE') closeSync(this, rest);
    else if (verb === 'AUTH') authenticate(this, rest[0]);
    else if (verb === 'CLOSE') closeSubscription(this, rest[0]);
    else this.say('NOTICE', 'error: unknown message type');
  }
}
