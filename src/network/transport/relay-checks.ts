/** Asking a relay for an event by id, which shows whether it keeps what it accepts; and proving our key (NIP-42). */
import { anySignal, type Clock, unlessAborted, within } from '../../base/async.ts';
import type { SignedEvent, Signer } from '../event.ts';
import type { Found } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import { withoutSecrets } from './relay-urls.ts';

/** Whether a relay has been found to keep what it accepts. */
export type Stores = 'unknown' | 'yes' | 'no';

const QUESTION_MS = 3000;
/** What was just accepted may take this long to be found. */
const SETTLE_MS = 2000;
const SAMPLED_SHARE = 1 / 20;
/** One event missing may be an accident. */
const MISSES_FOR_NO = 2;

const isEphemeral = (kind: number): boolean => kind >= 20_000 && kind < 30_000;

/** A newer event takes the place of an older one with the same kind, author and `d`. */
const isReplaceable = (kind: number): boolean =>
  kind === 0 ||
  kind === 3 ||
  (kind >= 10_000 && kind < 20_000) ||
  (kind >= 30_000 && kind < 40_000);

/** Asks for one event by id; undefined without an answer. Ephemeral events are not asked for. */
export async function askFor(
  connection: RelayConnection,
  { id, kind }: SignedEvent,
  clock: Clock,
  signal: AbortSignal,
): Promise<Found | undefined> {
  if (connection.state !== 'open' || isEphemeral(kind)) return undefined;
  const { name, found, forget } = connection.answers.expectFound(id);
  try {
    connection.say('REQ', name, { ids: [id], limit: 1 });
    const answer = await within(found, QUESTION_MS, clock, signal);
    return answer === 'unanswered' ? undefined : answer;
  } finally {
    forget();
    connection.say('CLOSE', name);
  }
}

export class ReadBack {
  readonly #connection: RelayConnection;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #stop: AbortSignal;
  readonly #latest = new Map<number, SignedEvent>();
  #isAsking = false;
  #missesInARow = 0;
  #missing = 0;
  #stores: Stores = 'unknown';

  constructor(connection: RelayConnection, clock: Clock, random: () => number, stop: AbortSignal) {
    this.#connection = connection;
    this.#clock = clock;
    this.#random = random;
    this.#stop = stop;
  }

  get stores(): Stores {
    return this.#stores;
  }

  get missing(): number {
    return this.#missing;
  }

  /** The relay accepted this: the first of a kind is asked back, then one in twenty, and all while some are missing. */
  note(event: SignedEvent): void {
    const isFirst = !this.#latest.has(event.kind);
    this.#latest.set(event.kind, event);
    const isDue = this.#missesInARow > 0 || this.#random() < SAMPLED_SHARE;
    if (isFirst || (isDue && !this.#isAsking)) void this.#check(event);
  }

  async #check(event: SignedEvent): Promise<void> {
    this.#isAsking = true;
    const { signal, release } = anySignal(this.#stop);
    try {
      await this.#clock.sleep(SETTLE_MS, signal);
      const found = await askFor(this.#connection, event, this.#clock, signal);
      if (found === 'there') {
        this.#missesInARow = 0;
        this.#stores = 'yes';
      } else if (found === 'absent' && !this.#mayBeReplaced(event)) {
        this.#missing++;
        if (++this.#missesInARow >= MISSES_FOR_NO) this.#stores = 'no';
      }
    } catch (error) {
      if (!this.#stop.aborted) throw error;
    } finally {
      release();
      this.#isAsking = false;
    }
  }

  #mayBeReplaced(event: SignedEvent): boolean {
    return isReplaceable(event.kind) && this.#latest.get(event.kind) !== event;
  }
}

const AUTH_KIND = 22_242;
/** A challenge may come after the refusal it explains. */
const CHALLENGE_MS = 5000;
const ANSWER_MS = 10_000;
const MAX_CHALLENGE_LENGTH = 500;

export class SignIn {
  readonly #connection: RelayConnection;
  readonly #signer: Signer;
  readonly #clock: Clock;
  #challenge: string | undefined;
  /** What became of the AUTH for this challenge: nothing, or why it failed. */
  #proof: Promise<string | undefined> | undefined;
  #waiting: (() => void)[] = [];

  constructor(connection: RelayConnection, signer: Signer, clock: Clock) {
    this.#connection = connection;
    this.#signer = signer;
    this.#clock = clock;
  }

  hear(challenge: string): void {
    if (challenge === this.#challenge || challenge.length > MAX_CHALLENGE_LENGTH) return;
    this.#challenge = challenge;
    this.#proof = undefined;
    this.#wake();
  }

  forget(): void {
    this.#challenge = undefined;
    this.#proof = undefined;
    this.#wake();
  }

  /** Why the relay does not know us, in words; undefined once it does. */
  async prove(signal: AbortSignal): Promise<string | undefined> {
    if (this.#challenge === undefined) {
      const heard = new Promise<void>((resolve) => this.#waiting.push(resolve));
      await within(heard, CHALLENGE_MS, this.#clock, signal);
    }
    if (this.#challenge === undefined) return 'the relay wants AUTH and sent no challenge';
    this.#proof ??= this.#answer(this.#challenge);
    return unlessAborted(this.#proof, signal);
  }

  async #answer(challenge: string): Promise<string | undefined> {
    const { answers, url } = this.#connection;
    const event = authEvent(this.#signer, url, challenge, this.#clock.now());
    const { answer, forget } = answers.expectOk(event.id);
    this.#connection.say('AUTH', event);
    const heard = await within(answer, ANSWER_MS, this.#clock);
    forget();
    if (!heard) return 'no answer to AUTH';
    return heard.type === 'ok' && heard.accepted ? undefined : heard.message || 'AUTH was refused';
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** The event that proves a key to the relay at this address. */
export const authEvent = (
  signer: Signer,
  url: string,
  challenge: string,
  nowMs: number,
): SignedEvent =>
  signer.sign({
    kind: AUTH_KIND,
    created_at: Math.floor(nowMs / 1000),
    tags: [
      ['relay', withoutSecrets(url)],
      ['challenge', challenge],
    ],
    content: '',
  });
