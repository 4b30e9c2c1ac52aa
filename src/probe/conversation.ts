/** One connection with a relay under test: gives the relay's own answers, unjudged and bounded. */
import { type Clock, within } from '../base/async.ts';
import { parseEvent, type SignedEvent } from '../network/event.ts';
import { idOf, isSizeNotice, judgeAnswer } from '../network/transport/answers.ts';
import { type Filter, parseFrame, type RelayFrame } from '../network/transport/frames.ts';
import type { OpenSocket, Socket } from '../network/transport/socket.ts';

interface Gone {
  readonly type: 'gone';
  readonly code: number;
  readonly message: string;
}

type Heard = RelayFrame | Gone;

/** What came back for an event; `silent` when nothing did in time. */
export type ProbeAnswer =
  | { readonly type: 'ok'; readonly accepted: boolean; readonly message: string }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'silent'; readonly message: string }
  | Gone;

export interface QueryReply {
  readonly events: readonly unknown[];
  readonly end: 'eose' | 'closed' | 'gone' | 'silent';
  readonly message: string;
}

export interface ConversationOptions {
  readonly openSocket: OpenSocket;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly openTimeoutMs: number;
}

/** We never ask for more than one event of 256 KiB and some small ones. */
const MAX_FRAME_BYTES = 1 << 20;
const MAX_BYTES_IN = 16 << 20;
const MAX_FOUND = 64;

export class Conversation {
  /** What AUTH (NIP-42) asks us to sign, as soon as the relay has said it. */
  challenge: string | undefined;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #socket: Socket;
  readonly #waiting = new Set<(heard: Heard) => void>();
  #gone: Gone | undefined;
  #bytesIn = 0;
  #asked = 0;
  #notice = '';
  #problem = '';

  private constructor(url: string, { openSocket, clock, signal }: ConversationOptions) {
    this.#clock = clock;
    this.#signal = signal;
    this.#socket = openSocket(url);
    this.#socket.onmessage = (text, bytes) => this.#read(text, bytes);
    this.#socket.onerror = (message) => {
      this.#problem = message;
    };
    this.#socket.onclose = (code, reason) => {
      const message = this.#problem || `connection ended (${code}${reason && `, ${reason}`})`;
      this.#end({ type: 'gone', code, message });
    };
  }

  /** A connection that is open, or why there is none. */
  static async open(url: string, options: ConversationOptions): Promise<Conversation | string> {
    const conversation = new Conversation(url, options);
    const opened = new Promise<true>((resolve) => {
      conversation.#socket.onopen = () => resolve(true);
    });
    const failed = conversation.#until((heard) => (heard.type === 'gone' ? heard : undefined));
    try {
      const { openTimeoutMs, clock, signal } = options;
      const first = await within(Promise.race([opened, failed]), openTimeoutMs, clock, signal);
      if (first === true) return conversation;
      conversation.close();
      return first?.message ?? `no connection within ${openTimeoutMs / 1000} s`;
    } catch (error) {
      conversation.close();
      throw error;
    }
  }

  get isOpen(): boolean {
    return this.#gone === undefined;
  }

  /** Sends an event and waits for what the relay says of it. A NOTICE counts where it can only mean this event. */
  async publish(event: SignedEvent, timeoutMs: number, verb = 'EVENT'): Promise<ProbeAnswer> {
    this.#notice = '';
    const answer = this.#until((heard): ProbeAnswer | undefined => {
      if (heard.type === 'gone') return heard;
      if (heard.type === 'ok') return heard.id === event.id ? heard : undefined;
      return heard.type === 'notice' && tells(heard.message) ? heard : undefined;
    });
    this.#send(verb, event);
    const heard = await this.#within(answer, timeoutMs);
    return heard ?? { type: 'silent', message: this.#notice || 'no answer in time' };
  }

  async ask(filter: Filter, timeoutMs: number): Promise<QueryReply> {
    const name = `ask${++this.#asked}`;
    const events: unknown[] = [];
    const answer = this.#until((heard): QueryReply | undefined => {
      if (heard.type === 'gone') return { events, end: 'gone', message: heard.message };
      if (heard.type === 'notice' && ASKS_AUTH.test(heard.message)) {
        return { events, end: 'closed', message: 'auth-required: says a NOTICE' };
      }
      if (!('subscription' in heard) || heard.subscription !== name) return undefined;
      if (heard.type === 'event') {
        if (events.length < MAX_FOUND) events.push(heard.event);
        return undefined;
      }
      if (heard.type === 'closed') return { events, end: 'closed', message: heard.message };
      return heard.type === 'eose' ? { events, end: 'eose', message: '' } : undefined;
    });
    this.#notice = '';
    this.#send('REQ', name, filter);
    const found = await this.#within(answer, timeoutMs);
    this.#send('CLOSE', name);
    return found ?? { events, end: 'silent', message: this.#notice || 'no answer in time' };
  }

  /** Subscribes for good; `arrived` tells whether an event with that id comes in time. */
  listen(filter: Filter): (id: string, timeoutMs: number) => Promise<boolean> {
    const seen = new Set<unknown>();
    this.#waiting.add((heard) => {
      if (heard.type !== 'event' || heard.subscription !== 'live' || seen.size >= MAX_FOUND) return;
      seen.add(idOf(heard.event));
    });
    this.#send('REQ', 'live', filter);
    return async (id, timeoutMs) => {
      if (seen.has(id)) return true;
      const arrival = this.#until((heard) =>
        heard.type === 'event' && idOf(heard.event) === id ? true : undefined,
      );
      return (await this.#within(arrival, timeoutMs)) ?? false;
    };
  }

  close(): void {
    this.#socket.close();
    this.#end({ type: 'gone', code: 1000, message: 'closed' });
  }

  #send(...message: readonly unknown[]): void {
    if (this.#gone === undefined) this.#socket.send(JSON.stringify(message));
  }

  #until<T>(pick: (heard: Heard) => T | undefined): Promise<T> {
    return new Promise((resolve) => {
      const waiter = (heard: Heard) => {
        const value = pick(heard);
        if (value === undefined) return;
        this.#waiting.delete(waiter);
        resolve(value);
      };
      this.#waiting.add(waiter);
      if (this.#gone) waiter(this.#gone);
    });
  }

  #within<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
    return within(promise, timeoutMs, this.#clock, this.#signal);
  }

  #read(text: string | undefined, bytes: number): void {
    this.#bytesIn += bytes;
    if (this.#bytesIn > MAX_BYTES_IN || bytes > MAX_FRAME_BYTES) {
      this.#problem = 'sends more than it was asked for';
      this.close();
      return;
    }
    const frame = text === undefined ? undefined : parseFrame(text);
    if (!frame) return;
    if (frame.type === 'auth') this.challenge = frame.challenge;
    if (frame.type === 'notice') this.#notice = frame.message;
    for (const waiter of [...this.#waiting]) waiter(frame);
  }

  #end(gone: Gone): void {
    if (this.#gone) return;
    this.#gone = this.#problem === '' ? gone : { ...gone, message: this.#problem };
    for (const waiter of [...this.#waiting]) waiter(this.#gone);
    this.#waiting.clear();
  }
}

/** Some relays refuse a REQ with a NOTICE that names no subscription. */
const ASKS_AUTH = /auth-required/i;

/** Some relays answer an event that is too large, or one too many, with a NOTICE and nothing else. */
const tells = (notice: string): boolean =>
  isSizeNotice(notice) || judgeAnswer(false, notice).status === 'throttled';

/** Whether a relay gave back the event it was given; it may add fields and reorder them. */
export function isSame(found: unknown, event: SignedEvent): boolean {
  const parsed = parseEvent(found);
  if (!parsed.ok) return false;
  const { id, sig, kind, pubkey, created_at, content, tags } = parsed.value;
  return (
    id === event.id &&
    sig === event.sig &&
    kind === event.kind &&
    pubkey === event.pubkey &&
    created_at === event.created_at &&
    content === event.content &&
    JSON.stringify(tags) === JSON.stringify(event.tags)
  );
}
