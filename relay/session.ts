/** One connection: reads frames, keeps its subscriptions, and writes without drowning a slow reader. */
import { randomBytes } from 'node:crypto';
import type { RawData, WebSocket } from 'ws';
import { addEvent } from './adding.ts';
import { authenticate } from './authenticating.ts';
import type { Connection, Core } from './core.ts';
import type { Copies } from './faults/fault.ts';
import { Line } from './faults/line.ts';
import { createMisdeeds, type Misdeeds } from './faults/misdeeds.ts';
import { createFaultPlan } from './faults/plan.ts';
import type { CompiledFilter } from './filter.ts';
import type { Limits } from './limits.ts';
import type { IdList } from './negentropy/id-list.ts';
import type { AuthMode } from './policies/policy.ts';
import { closeSubscription, countStored, openSubscription } from './querying.ts';
import { closeSync, continueSync, openSync } from './syncing.ts';

/** Stored answers wait while more than this is unsent, so that live events are not stuck behind them. */
const ROOM_BYTES = 1 << 20;

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
  readonly subscriptions = new Map<string, readonly CompiledFilter[]>();
  readonly syncs = new Map<string, IdList>();
  readonly #ws: WebSocket;
  readonly #origin: Origin;
  readonly #plan: () => Copies;
  readonly #line: Line | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  #waiting: (() => void)[] = [];
  #framesIn = 0;
  #challenge: string | undefined;

  constructor(core: Core, ws: WebSocket, origin: Origin) {
    const { number } = origin;
    this.core = core;
    this.number = number;
    this.#ws = ws;
    this.#origin = origin;
    this.#plan = createFaultPlan(core.faults, core.seed, number);
    this.misdeeds = createMisdeeds(core.faults, core.seed, number);
    const { bandwidth } = core.faults;
    this.#line =
      bandwidth === undefined ? undefined : new Line(bandwidth, (frame) => this.#send(frame));
    ws.on('message', (data, isBinary) => this.#read(data, isBinary));
    ws.on('error', () => ws.terminate());
    ws.on('close', () => this.#end());
    if (core.auth !== 'none') this.challenge();
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
    return Math.floor(this.core.nowMs() / 1000);
  }

  get isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  say(...message: readonly unknown[]): void {
    this.#write(Buffer.from(JSON.stringify(message)));
  }

  answer(id: string, accepted: boolean, message: string): void {
    const frame = Buffer.from(JSON.stringify(['OK', id, accepted, message]));
    if (!this.core.faults.oks) this.#write(frame);
    else void this.#spread(frame, () => true);
  }

  deliver(frame: Buffer, subscription: string): Promise<unknown> | undefined {
    for (const twin of this.misdeeds.twinsOf(frame)) {
      this.core.counts.twinsSent++;
      this.#write(twin);
    }
    return this.#spread(frame, () => this.subscriptions.has(subscription));
  }

  async room(): Promise<void> {
    while (this.isOpen && this.#unsent > ROOM_BYTES) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  close(): void {
    this.#ws.close(1001, 'relay is closing');
  }

  terminate(): void {
    this.#ws.terminate();
  }

  #spread(frame: Buffer, wanted: () => boolean): Promise<unknown> | undefined {
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

  #write(frame: Buffer): void {
    if (!this.isOpen) return;
    if (this.#unsent > this.limits.maxUnsentBytes) {
      this.#ws.terminate();
      return;
    }
    if (this.#line) this.#line.push(frame);
    else this.#send(frame);
  }

  get #unsent(): number {
    return this.#ws.bufferedAmount + (this.#line?.bytes ?? 0);
  }

  #send(frame: Buffer): void {
    if (!this.isOpen) return;
    this.core.counts.framesOut++;
    this.core.counts.bytesOut += frame.length;
    this.#ws.send(frame, { binary: false }, () => this.#wake());
  }

  #wake(): void {
    if (this.#waiting.length === 0 || (this.isOpen && this.#unsent > ROOM_BYTES)) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  #end(): void {
    this.core.sessions.delete(this);
    this.subscriptions.clear();
    this.syncs.clear();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#line?.close();
    this.#wake();
  }

  #read(data: RawData, isBinary: boolean): void {
    const bytes = data as Buffer; // `ws` gives one Buffer per message unless told otherwise
    this.core.counts.framesIn++;
    this.core.counts.bytesIn += bytes.length;
    this.#framesIn++;
    if (isBinary) this.say('NOTICE', 'invalid: binary frames are not read');
    else if (this.#takes(bytes)) this.#dispatch(bytes);
    if (this.core.log?.isBehind) this.#pause(this.core.log.settled());
    if (this.#framesIn === this.core.faults.disconnectAfter) this.#ws.close(1012, 'fault');
  }

  /** Reads no more until the disk has caught up. */
  #pause(settled: Promise<void>): void {
    if (!this.isOpen || this.#ws.isPaused) return;
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
    let message: unknown;
    try {
      message = JSON.parse(bytes.toString());
    } catch {
      this.say('NOTICE', 'invalid: message is not JSON');
      return;
    }
    if (!Array.isArray(message)) {
      this.say('NOTICE', 'invalid: message is not a list');
      return;
    }
    const [verb, ...rest] = message as unknown[];
    if (verb === 'EVENT') addEvent(this, rest[0]);
    else if (verb === 'REQ') void openSubscription(this, rest);
    else if (verb === 'COUNT') countStored(this, rest);
    else if (verb === 'NEG-OPEN' && this.core.profile.manners.syncs) openSync(this, rest);
    else if (verb === 'NEG-MSG') continueSync(this, rest);
    else if (verb === 'NEG-CLOSE') closeSync(this, rest);
    else if (verb === 'AUTH') authenticate(this, rest[0]);
    else if (verb === 'CLOSE') closeSubscription(this, rest[0]);
    else this.say('NOTICE', 'error: unknown message type');
  }
}
