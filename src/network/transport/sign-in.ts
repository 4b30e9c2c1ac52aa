/** Proving to a relay whose key this is (NIP-42): one AUTH per challenge, for all that waits for it. */
import type { Clock } from '../../base/async.ts';
import type { SignedEvent, Signer } from '../event.ts';
import type { RelayConnection } from './connection.ts';
import { unlessAborted, within } from './deadline.ts';
import { withoutSecrets } from './relay-urls.ts';

const AUTH_KIND = 22_242;
/** A challenge may come after the refusal it explains. */
const CHALLENGE_MS = 5000;
const ANSWER_MS = 10_000;
/** Longer challenges are not signed. */
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

  /** The connection ended, and its challenge with it. */
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
