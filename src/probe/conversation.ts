/** One connection to a relay under test: returns the relay's answers without judging them, within fixed limits. */
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

/** The relay's answer to an event; `silent` if none came in time. */
export type ProbeAnswer =
  | { readonly type: 'ok'; readonly accepted: boolean; readonly message: string }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'silent'; readonly message: string }
  | Gone;

/** The events of a query, and how it ended. */
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

/** Limits on what a relay may send; the largest answer is one event of 256 KiB and a few small ones. */
const MAX_FRAME_BYTES = 1 << 20;
const MAX_BYTES_IN = 16 << 20;
const MAX_EVENTS_READ = 64;

/** A connection to the relay under test. */
export class Conversation {
  /** The relay's authentication challenge (NIP-42), once it has sent one. */
  challenge: string | undefined;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #socket: Socket;
  readonly #waiting = new Set<(heard: Heard) => void>();
  #gone: Gone | undefined;
  #bytesIn = 0;
  #queries = 0;
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

  /** Opens a connection; resolves with the reason if that fails. */
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

  /** Sends an event and waits for the relay's answer. A NOTICE counts if it can only refer to this event. */
  async publish(event: SignedEvent, timeoutMs: number, verb = 'EVENT'): Promise<ProbeAnswer> {
    this.#notice = '';
    const answer = this.#until((heard): ProbeAnswer | undefined => {
      if (heard.type === 'gone') return heard;
      if (heard.type === 'ok') return heard.id === event.id ? heard : undefined;
      return heard.type === 'notice' && isAnswer(heard.message) ? heard : undefined;
    });
    this.#send(verb, event);
    const heard = await this.#within(answer, timeoutMs);
    return heard ?? { type: 'silent', message: this.#notice || 'no answer in time' };
  }

  async ask(filter: Filter, timeoutMs: number): Promise<QueryReply> {
    const name = `ask${++this.#queries}`;
    const events: unknown[] = [];
    const answer = this.#until((heard): QueryReply | undefined => {
      if (heard.type === 'gone') return { events, end: 'gone', message: heard.message };
      if (heard.type === 'notice' && ASKS_AUTH.test(heard.message)) {
        return { events, end: 'closed', message: 'auth-required: says a NOTICE' };
      }
      if (!('subscription' in heard) || heard.subscription !== name) return undefined;
      if (heard.type === 'event') {
        if (events.length < MAX_EVENTS_READ) events.push(heard.event);
        return undefined;
      }
      if (heard.type === 'closed') return { events, end: 'closed', message: heard.message };
      return heard.type === 'eose' ? { events, end: 'eose', message: '' } : undefined;
    });
    this.#notice = '';
    this.#send('REQ', name, filter);
    const reply = await this.#within(answer, timeoutMs);
    this.#send('CLOSE', name);
    return reply ?? { events, end: 'silent', message: this.#notice || 'no answer in time' };
  }

  /** Subscribes until the connection closes; the returned function reports whether an event arrives in time. */
  listen(filter: Filter): (id: string, timeoutMs: number) => Promise<boolean> {
    const seen = new Set<unknown>();
    this.#waiting.add((heard) => {
      if (heard.type !== 'event' || heard.subscription !== 'live' || seen.size >= MAX_EVENTS_READ)
        return;
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

/** A refusal of a REQ in a NOTICE, as some relays send it, without the subscription's name. */
const ASKS_AUTH = /auth-required/i;

/** Reports whether a NOTICE answers an event: some relays refuse events that are too large or too many this way. */
const isAnswer = (notice: string): boolean =>
  isSizeNotice(notice) || judgeAnswer(false, notice).status === 'throttled';

/** Reports whether a relay returned the event that was sent; it may add fields and reorder them. */
export function isSame(returned: unknown, event: SignedEvent): boolean {
  const parsed = parseEvent(returned);
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
