/** What one connection still owes us: OKs for published events, and answers to "do you have this id". */
import { deferred } from '../../base/async.ts';
import type { RelayFrame } from './frames.ts';

export type Answer =
  | { readonly type: 'ok'; readonly accepted: boolean; readonly message: string }
  /** The connection ended first. */
  | { readonly type: 'dropped'; readonly code: number; readonly message: string };

/** Whether a relay has an event; it may also refuse the question, or go away. */
export type Found = 'there' | 'absent' | 'unanswered';

type Settle = (answer: Answer) => void;

/** Subscription ids that start so are ours to read, not a subscriber's. */
const QUESTION_PREFIX = 'q';

export class Answers {
  readonly #oks = new Map<string, Set<Settle>>();
  readonly #questions = new Map<string, { readonly id: string; settle(found: Found): void }>();
  #asked = 0;

  /** The OK for this event; the returned `forget` gives up waiting. */
  expectOk(id: string): { readonly answer: Promise<Answer>; forget(): void } {
    const settlers = this.#oks.get(id) ?? new Set<Settle>();
    this.#oks.set(id, settlers);
    const { promise, settle } = deferred<Answer>();
    settlers.add(settle);
    const forget = () => {
      settlers.delete(settle);
      if (settlers.size === 0 && this.#oks.get(id) === settlers) this.#oks.delete(id);
    };
    return { answer: promise, forget };
  }

  /** Whether the relay has this event; `name` is the subscription to ask with. */
  expectFound(id: string): {
    readonly name: string;
    readonly found: Promise<Found>;
    forget(): void;
  } {
    const name = `${QUESTION_PREFIX}${++this.#asked}`;
    const { promise, settle } = deferred<Found>();
    this.#questions.set(name, { id, settle });
    return { name, found: promise, forget: () => this.#questions.delete(name) };
  }

  settleOk(id: string, answer: Answer): void {
    for (const settle of this.#oks.get(id) ?? []) settle(answer);
  }

  /** Settles the only OK awaited, if exactly one is: a NOTICE names no event. */
  settleOnlyOk(answer: Answer): void {
    const [id, ...others] = this.#oks.keys();
    if (id !== undefined && others.length === 0) this.settleOk(id, answer);
  }

  /** True when the frame belonged to a question. */
  readQuestion(frame: RelayFrame): boolean {
    if (frame.type !== 'event' && frame.type !== 'eose' && frame.type !== 'closed') return false;
    if (!frame.subscription.startsWith(QUESTION_PREFIX)) return false;
    const question = this.#questions.get(frame.subscription);
    if (frame.type === 'eose') question?.settle('absent');
    else if (frame.type === 'closed') question?.settle('unanswered');
    else if (idOf(frame.event) === question?.id) question?.settle('there');
    return true;
  }

  /** The connection is gone: nothing more will be answered. */
  drop(code: number, message: string): void {
    for (const id of this.#oks.keys()) this.settleOk(id, { type: 'dropped', code, message });
    for (const question of this.#questions.values()) question.settle('unanswered');
  }
}

/** The id an unparsed event claims to have. */
export const idOf = (event: unknown): unknown =>
  typeof event === 'object' && event !== null && 'id' in event ? event.id : undefined;
