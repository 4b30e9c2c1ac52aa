/**
 * Classifies OK, CLOSED and NOTICE answers of relays by their prefix or wording (NIP-01, NIP-42), and matches answers
 * to the events and questions that wait for them.
 */
import { deferred } from '../../base/async.ts';
import type { RelayFrame } from './frames.ts';

export type PublishStatus =
  | 'accepted'
  /** The relay does not want it, now or ever. */
  | 'refused'
  | 'throttled'
  | 'auth-needed'
  | 'pow-needed'
  /** The relay said nothing, and does not have it either. */
  | 'no-verdict'
  | 'unreachable'
  /** The relay calls it invalid: our bug, or a stricter schema. */
  | 'malformed';

export interface AnswerVerdict {
  readonly status: PublishStatus;
  /** Sending the same event again may succeed. */
  readonly transient?: boolean;
  /** What the answer refuses beyond this event: every event of its kind, or of its size. */
  readonly refuses?: 'kind' | 'size';
  /** The relay rejects the event's date. */
  readonly blamesClock?: true;
  /** Proof of work that the relay requires (NIP-13), in bits, if it states a number. */
  readonly bits?: number;
}

const accepted: AnswerVerdict = { status: 'accepted' };
const refused: AnswerVerdict = { status: 'refused' };
const throttled: AnswerVerdict = { status: 'throttled' };
const oversize: AnswerVerdict = { status: 'refused', refuses: 'size' };
const policy: AnswerVerdict = { status: 'refused', refuses: 'kind' };
const misdated: AnswerVerdict = { status: 'refused', blamesClock: true };
const transient: AnswerVerdict = { status: 'refused', transient: true };

const TOO_LARGE = new RegExp(
  'too (?:large|big|long)|(?:message|event|content) size|characters should be enough' +
    String.raw`|(?:longer than|less than or equal to) \d+`,
  'i',
);
/** A limit on a number, such as that of subscriptions, says nothing about the size of an event. */
const TOO_MANY = /too many/i;
const TOO_FAST = /slow down|rate.?limit|throttl|too fast|too many (?:events|messages|requests)/i;
/** An HTTP error in place of a WebSocket, as Node's sockets word it. */
const OVERLOADED = /server response: (?:429|503)\b/i;
const CLOCK = /created_at|expire|too (?:early|late|old|new)|in the (?:future|past)/i;

/** Verdict by prefix. `mute:` (no subscriber at the moment) says nothing about the kind: there may be one later. */
const byPrefix: Readonly<Record<string, AnswerVerdict>> = {
  duplicate: accepted,
  replaced: accepted,
  deleted: refused,
  'rate-limited': throttled,
  'rate-limit': throttled,
  'auth-required': { status: 'auth-needed' },
  restricted: policy,
  blocked: policy,
  mute: refused,
  unsupported: refused,
  error: transient,
};

/** Wording of relays that send no prefix, most specific first. */
const byWords: readonly (readonly [RegExp, AnswerVerdict])[] = [
  [/duplicate|already (?:have|exists|stored)/i, accepted],
  [TOO_FAST, throttled],
  [TOO_MANY, throttled],
  [TOO_LARGE, oversize],
];

/** Returns the meaning of an OK or CLOSED answer. */
export function judgeAnswer(isAccepted: boolean, message: string): AnswerVerdict {
  if (isAccepted) return accepted;
  const prefix = /^\s*([a-z-]+)\s*:/i.exec(message)?.[1]?.toLowerCase();
  if (prefix === 'invalid') {
    if (isSizeNotice(message)) return oversize;
    return CLOCK.test(message) ? misdated : { status: 'malformed' };
  }
  if (prefix === 'pow') return { status: 'pow-needed', ...bitsIn(message) };
  const known = prefix !== undefined && Object.hasOwn(byPrefix, prefix);
  if (known) return byPrefix[prefix]!;
  return byWords.find(([words]) => words.test(message))?.[1] ?? transient;
}

/** Returns the largest number in a refusal: in "difficulty 12 is less than 16" the required bits are 16. */
function bitsIn(message: string): { readonly bits?: number } {
  const numbers = (message.match(/\d+/g) ?? []).map(Number).filter((bits) => bits <= 256);
  return numbers.length === 0 ? {} : { bits: Math.max(...numbers) };
}

/** Reports whether a message is about size: some relays answer an oversize event only with a NOTICE. */
export const isSizeNotice = (notice: string): boolean =>
  TOO_LARGE.test(notice) && !TOO_MANY.test(notice);

/** Reports whether a message says that too many subscriptions are open. */
export const isCountNotice = (notice: string): boolean =>
  TOO_MANY.test(notice) && !TOO_FAST.test(notice);

export const isRateNotice = (notice: string): boolean => TOO_FAST.test(notice);

export const isOverloadError = (error: string): boolean => OVERLOADED.test(error);

export type PublishAnswer =
  | { readonly type: 'ok'; readonly accepted: boolean; readonly message: string }
  | { readonly type: 'dropped'; readonly code: number; readonly message: string };

/** Whether a relay has an event; `unanswered` if it refused the query or disconnected. */
export type EventPresence = 'there' | 'absent' | 'unanswered';

type Settle = (answer: PublishAnswer) => void;

/** Prefix of the subscription ids used for presence queries. */
const QUESTION_PREFIX = 'q';

export class Answers {
  readonly #oks = new Map<string, Set<Settle>>();
  readonly #questions = new Map<
    string,
    { readonly id: string; settle(presence: EventPresence): void }
  >();
  #lastQuestion = 0;

  /** Returns a promise of the OK for this event; `forget` stops waiting. */
  expectOk(id: string): { readonly answer: Promise<PublishAnswer>; forget(): void } {
    const settlers = this.#oks.get(id) ?? new Set<Settle>();
    this.#oks.set(id, settlers);
    const { promise, settle } = deferred<PublishAnswer>();
    settlers.add(settle);
    const forget = () => {
      settlers.delete(settle);
      if (settlers.size === 0 && this.#oks.get(id) === settlers) this.#oks.delete(id);
    };
    return { answer: promise, forget };
  }

  expectPresence(id: string): {
    readonly name: string;
    readonly presence: Promise<EventPresence>;
    forget(): void;
  } {
    const name = `${QUESTION_PREFIX}${++this.#lastQuestion}`;
    const { promise, settle } = deferred<EventPresence>();
    this.#questions.set(name, { id, settle });
    return { name, presence: promise, forget: () => this.#questions.delete(name) };
  }

  settleOk(id: string, answer: PublishAnswer): void {
    for (const settle of this.#oks.get(id) ?? []) settle(answer);
  }

  /** Settles the awaited OK if there is exactly one: a NOTICE does not name its event. */
  settleOnlyOk(answer: PublishAnswer): void {
    const [id, ...others] = this.#oks.keys();
    if (id !== undefined && others.length === 0) this.settleOk(id, answer);
  }

  readQuestion(frame: RelayFrame): boolean {
    if (frame.type !== 'event' && frame.type !== 'eose' && frame.type !== 'closed') return false;
    if (!frame.subscription.startsWith(QUESTION_PREFIX)) return false;
    const question = this.#questions.get(frame.subscription);
    if (frame.type === 'eose') question?.settle('absent');
    else if (frame.type === 'closed') question?.settle('unanswered');
    else if (idOf(frame.event) === question?.id) question?.settle('there');
    return true;
  }

  drop(code: number, message: string): void {
    for (const id of this.#oks.keys()) this.settleOk(id, { type: 'dropped', code, message });
    for (const question of this.#questions.values()) question.settle('unanswered');
  }
}

/** Returns the id that an unparsed event claims. */
export const idOf = (event: unknown): unknown =>
  typeof event === 'object' && event !== null && 'id' in event ? event.id : undefined;
