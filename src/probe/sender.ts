/** Sends sample events to one relay, one at a time and within a budget, and reports the result of each. */
import type { Clock } from '../base/async.ts';
import type { EventDraft, SignedEvent, Signer } from '../network/event.ts';
import { pureCrypto, type Sha256Text } from '../network/event-crypto.ts';
import { mineDraft } from '../network/proof-of-work.ts';
import { isSizeNotice, judgeAnswer } from '../network/transport/answers.ts';
import type { Filter } from '../network/transport/frames.ts';
import { authEvent } from '../network/transport/relay-checks.ts';
import {
  Conversation,
  type ConversationOptions,
  isSame,
  type ProbeAnswer,
  type QueryReply,
} from './conversation.ts';
import type { RateReport } from './report.ts';

export interface ProbeOptions extends ConversationOptions {
  readonly clock: Clock;
  /** Signer with a throwaway key. */
  readonly signer: Signer;
  /** Time after which only the deletion may start. */
  readonly timeLimitMs: number;
  /** Time to wait for an answer, not counting the upload of a large event. */
  readonly answerTimeoutMs: number;
  /** Time to wait after `rate-limited` before sending the same event again. */
  readonly pauseMs: number;
  readonly onStep: (words: string) => void;
  /** For proof of work; default pure JavaScript. */
  readonly sha256Text?: Sha256Text;
}

/** `lost`: accepted, but not returned by a query. `unsent`: over the budget, or the relay had stopped answering. */
export type ProbeOutcome =
  | 'kept'
  | 'lost'
  | 'refused'
  | 'too-large'
  | 'throttled'
  | 'auth'
  | 'work'
  | 'clock'
  | 'silent'
  | 'unsent';

/** The result of a sample event: the outcome, the relay's message, the size. */
export interface ProbeSent {
  readonly outcome: ProbeOutcome;
  readonly words: string;
  readonly bytes: number;
  readonly event?: SignedEvent;
}

type Judged = Pick<ProbeSent, 'outcome' | 'words'>;

/** How to send and check a sample event. */
export interface How {
  /** How to check that the relay stored the event: by a query (`ask`, default), not at all, or with a function. */
  readonly seen?: 'ask' | 'not' | ((id: string, timeoutMs: number) => Promise<boolean>);
  /** Whether to wait and try again after `rate-limited`; default true. */
  readonly patient?: boolean;
  /** Whether the event may be sent after the time limit, from the reserved budget. */
  readonly last?: boolean;
}

/** Budget of a trial: maximum number of events and bytes sent. */
const MAX_EVENTS = 40;
const MAX_BYTES = 1_000_000;
/** Budget reserved for the deletion. */
const RESERVED = { events: 4, bytes: 20_000 } as const;
/** Slowest upload rate (64 kB/s) for which the time limit of an answer allows. */
const SLOWEST_BYTES_PER_MS = 64;
/** Waits before each query for an accepted event: some relays store it shortly after their OK. */
const READ_BACK_DELAYS_MS = [0, 300, 1200] as const;
/** Number of unanswered events, and of dropped connections, after which the trial gives up. */
const MOST_SILENT = 2;
const MOST_HUNG_UP = 12;
/** Smallest number of dropped connections that counts as a habit, if the relay drops them after most messages. */
const HABIT = 5;
/** Characters of content from which a dropped connection is blamed on the size of the event. */
const LARGE = 10_000;
/** Maximum bytes hashed on average to find a proof of work (about a second); a harder one is not attempted. */
const MOST_HASHED_BYTES = 2.5e8;
/** Matches refusals that are about the date of an event. */
const CLOCK = /created_at|expire|too (?:early|late|old)|in the (?:future|past)|timestamp/i;

/** Sends sample events over two connections: one writes, the other reads back. */
export class ProbeSender {
  readonly accepted: SignedEvent[] = [];
  readonly spent = { events: 0, bytes: 0 };
  readonly auth: { write: boolean; read: boolean; letIn?: boolean } = { write: false, read: false };
  work: { bits?: number; words: string } | undefined;
  clockWords: string | undefined;
  readonly #rateMeter = new RateMeter();
  readonly #url: string;
  readonly #options: ProbeOptions;
  readonly #startMs: number;
  readonly #statedBits: number;
  #writer: Conversation;
  #reader: Conversation;
  #silent = 0;
  #hungUp = 0;
  #messages = 0;
  #reopened = 0;

  constructor(
    url: string,
    [writer, reader]: readonly [Conversation, Conversation],
    options: ProbeOptions,
    statedBits = 0,
  ) {
    this.#url = url;
    this.#writer = writer;
    this.#reader = reader;
    this.#options = options;
    this.#statedBits = statedBits;
    this.#startMs = options.clock.now();
  }

  get rate(): RateReport {
    return this.#rateMeter.rate;
  }

  /** Number of messages, and how often the connection had ended before the next one; undefined if that is no habit. */
  get hangUps(): { readonly times: number; readonly messages: number } | undefined {
    const [times, messages] = [this.#reopened, this.#messages];
    return times >= HABIT && 2 * times >= messages ? { times, messages } : undefined;
  }

  get isMute(): boolean {
    return this.#silent >= MOST_SILENT || this.#hungUp >= MOST_HUNG_UP;
  }

  async send(draft: EventDraft, how: How = {}): Promise<ProbeSent> {
    const authenticated = new Set<Conversation>();
    for (;;) {
      const bytesAtLeast = JSON.stringify(draft).length;
      const blocked = await this.#blocked(bytesAtLeast, how);
      if (blocked !== undefined) return { outcome: 'unsent', words: blocked, bytes: bytesAtLeast };
      const worked = this.#withWork(draft);
      if (!worked) return { outcome: 'work', words: this.work!.words, bytes: bytesAtLeast };
      const event = this.#options.signer.sign(worked);
      const bytes = JSON.stringify(event).length;
      this.spent.events++;
      this.#messages++;
      this.spent.bytes += bytes;
      const answer = await this.#writer.publish(event, this.#patience(bytes));
      const judged = await this.#judge(event, answer, how, authenticated);
      if (judged !== undefined) return { ...judged, event, bytes };
    }
  }

  /** Reports whether the relay has exactly this event, queried on the other connection. */
  async has(event: SignedEvent): Promise<boolean> {
    const { events } = await this.ask({ ids: [event.id], limit: 1 });
    return events.some((returned) => isSame(returned, event));
  }

  /** Queries stored events on the other connection; authenticates if the relay requires it. */
  async ask(filter: Filter): Promise<QueryReply> {
    const timeoutMs = this.#options.answerTimeoutMs;
    if (!this.#reader.isOpen) {
      const opened = await Conversation.open(this.#url, this.#options);
      if (typeof opened === 'string') return { events: [], end: 'gone', message: opened };
      this.#reader = opened;
      this.#reopened++;
    }
    this.#messages++;
    const reply = await this.#reader.ask(filter, timeoutMs);
    const isGuarded =
      reply.end === 'closed' && judgeAnswer(false, reply.message).status === 'auth-needed';
    if (!isGuarded) return reply;
    this.auth.read = true;
    if (!(await this.#authenticate(this.#reader))) return reply;
    return this.#reader.ask(filter, timeoutMs);
  }

  listen(filter: Filter): (id: string, timeoutMs: number) => Promise<boolean> {
    return this.#reader.listen(filter);
  }

  close(): void {
    this.#writer.close();
    this.#reader.close();
  }

  /** Returns why nothing more may be sent, or undefined; reconnects if the relay had dropped the connection. */
  async #blocked(bytes: number, { last = false }: How): Promise<string | undefined> {
    const { clock, timeLimitMs } = this.#options;
    if (this.isMute) return 'not tried: the relay had stopped answering';
    if (!last && clock.now() >= this.#startMs + timeLimitMs) return 'not tried: no time was left';
    const reserved = last ? { events: 0, bytes: 0 } : RESERVED;
    const isOver =
      this.spent.events >= MAX_EVENTS - reserved.events ||
      this.spent.bytes + bytes > MAX_BYTES - reserved.bytes;
    if (isOver) return 'not tried: the budget of the trial is used up';
    if (this.#writer.isOpen) return undefined;
    const opened = await Conversation.open(this.#url, this.#options);
    if (typeof opened === 'string') return `not tried: reconnecting failed: ${opened}`;
    this.#writer = opened;
    this.#reopened++;
    return undefined;
  }

  #patience(bytes: number): number {
    return this.#options.answerTimeoutMs + bytes / SLOWEST_BYTES_PER_MS;
  }

  /** Returns the result of an event; undefined if the event must be sent again. */
  async #judge(
    event: SignedEvent,
    answer: ProbeAnswer,
    how: How,
    authenticated: Set<Conversation>,
  ): Promise<Judged | undefined> {
    const words = answer.message;
    if (answer.type === 'silent') return this.#judgeSilence(event, words);
    this.#silent = 0;
    if (answer.type === 'gone') return this.#judgeEnd(event, answer.code, words);
    const isOk = answer.type === 'ok' && answer.accepted;
    const { status, refuses } = judgeAnswer(isOk, words);
    if (status === 'accepted') return this.#readBack(event, words, how);
    if (status === 'auth-needed') {
      this.auth.write = true;
      const writer = this.#writer;
      if (authenticated.has(writer)) return { outcome: 'auth', words };
      authenticated.add(writer);
      return (await this.#authenticate(writer)) ? undefined : { outcome: 'auth', words };
    }
    if (status === 'pow-needed') return this.#learnWork(words);
    if (status === 'throttled') return this.#wait(words, how);
    if (refuses === 'size' || isSizeNotice(words)) return { outcome: 'too-large', words };
    if (!CLOCK.test(words)) return { outcome: 'refused', words };
    this.clockWords ??= words;
    return { outcome: 'clock', words };
  }

  async #judgeSilence(event: SignedEvent, words: string): Promise<Judged> {
    const isThere = await this.has(event);
    if (!isThere) {
      this.#silent++;
      return { outcome: 'silent', words };
    }
    this.#count(event);
    return { outcome: 'kept', words: 'no answer, but the event is stored' };
  }

  /** Judges a dropped connection: a frame was too long (1009), or the cause is unknown; the first may be chance. */
  #judgeEnd(event: SignedEvent, code: number, words: string): Judged | undefined {
    if (code === 1009) return { outcome: 'too-large', words: 'it hung up (1009, message too big)' };
    this.#hungUp++;
    if (this.#hungUp === 1) return undefined;
    const isLarge = event.content.length > LARGE;
    return { outcome: isLarge ? 'too-large' : 'refused', words: `it hung up: ${words}` };
  }

  async #readBack(event: SignedEvent, words: string, { seen = 'ask' }: How): Promise<Judged> {
    this.#count(event);
    if (seen === 'not') return { outcome: 'kept', words };
    if (seen !== 'ask') {
      const isSeen = await seen(event.id, this.#options.answerTimeoutMs / 5);
      return { outcome: isSeen ? 'kept' : 'lost', words };
    }
    for (const ms of READ_BACK_DELAYS_MS) {
      if (ms > 0) await this.#options.clock.sleep(ms, this.#options.signal);
      if (await this.has(event)) return { outcome: 'kept', words };
    }
    return { outcome: 'lost', words };
  }

  #count(event: SignedEvent): void {
    this.accepted.push(event);
    this.#rateMeter.accept(this.#options.clock.now());
  }

  async #wait(words: string, { patient = true, last = false }: How): Promise<Judged | undefined> {
    const { clock, pauseMs, timeLimitMs, signal, onStep } = this.#options;
    const nowMs = clock.now();
    this.#rateMeter.throttle(nowMs, words);
    // the deletion, which is last, may use the time reserved for it, and a little more for relays that count by the
    // minute; the other events must leave that time
    const graceMs = last ? pauseMs / 10 : 0;
    const leftMs = this.#startMs + timeLimitMs + graceMs - nowMs;
    const waitMs = last ? Math.min(pauseMs, leftMs) : pauseMs;
    const isLate = leftMs < (last ? pauseMs / 10 : 2 * pauseMs);
    if (!patient || isLate) return { outcome: 'throttled', words };
    onStep(`rate-limited; trying again in ${(waitMs / 1000).toFixed(0)} s`);
    await clock.sleep(waitMs, signal);
    return undefined;
  }

  /** Adds the proof of work that the relay requires; undefined if that would take too long. */
  #withWork(draft: EventDraft): EventDraft | undefined {
    const { signer, sha256Text = pureCrypto.sha256Text } = this.#options;
    const bits = this.work?.bits ?? 0;
    if (bits === 0) return draft;
    if (2 ** bits * JSON.stringify(draft).length > MOST_HASHED_BYTES) return undefined;
    return mineDraft({ ...draft, pubkey: signer.publicKey }, bits, sha256Text);
  }

  #learnWork(words: string): Judged | undefined {
    const numbers = [...words.matchAll(/\d+/g)].map(Number).filter((bits) => bits <= 256);
    const bits = Math.max(this.#statedBits, ...numbers);
    const isNew = bits > (this.work?.bits ?? 0);
    this.work ??= { words };
    if (!isNew) return { outcome: 'work', words };
    this.work = { bits, words };
    return undefined;
  }

  /** Authenticates the throwaway key on one connection; false without a challenge, or if the relay refuses. */
  async #authenticate(conversation: Conversation): Promise<boolean> {
    const { challenge } = conversation;
    if (challenge === undefined) return false;
    const { signer, clock, answerTimeoutMs } = this.#options;
    const event = authEvent(signer, this.#url, challenge, clock.now());
    const answer = await conversation.publish(event, answerTimeoutMs, 'AUTH');
    this.auth.letIn = answer.type === 'ok' && answer.accepted;
    return this.auth.letIn;
  }
}

class RateMeter {
  #rate: RateReport = { accepted: 0, seconds: 0 };
  #firstMs: number | undefined;
  #throttledMs: number | undefined;

  get rate(): RateReport {
    return this.#rate;
  }

  accept(nowMs: number): void {
    this.#firstMs ??= nowMs;
    const { accepted, againAfterSeconds } = this.#rate;
    if (this.#throttledMs === undefined) {
      this.#rate = { accepted: accepted + 1, seconds: (nowMs - this.#firstMs) / 1000 };
    } else if (againAfterSeconds === undefined) {
      this.#rate = { ...this.#rate, againAfterSeconds: (nowMs - this.#throttledMs) / 1000 };
    }
  }

  throttle(nowMs: number, words: string): void {
    if (this.#throttledMs !== undefined) return;
    this.#throttledMs = nowMs;
    const seconds = (nowMs - (this.#firstMs ?? nowMs)) / 1000;
    this.#rate = { ...this.#rate, seconds, throttled: words };
  }
}
