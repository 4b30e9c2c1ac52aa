/** Asking a relay for an event by id, which shows whether it keeps what it accepts; and proving our key (NIP-42). */
import {
  anySignal,
  type Clock,
  createNotifier,
  notifiedOrDeadline,
  unlessAborted,
  within,
} from '../../base/async.ts';
import type { SignedEvent, Signer } from '../event.ts';
import type { EventPresence } from './answers.ts';
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
): Promise<EventPresence | undefined> {
  if (connection.state !== 'open' || isEphemeral(kind)) return undefined;
  const { name, presence, forget } = connection.answers.expectPresence(id);
  try {
    connection.say('REQ', name, { ids: [id], limit: 1 });
    const answer = await within(presence, QUESTION_MS, clock, signal);
    return answer === 'unanswered' ? undefined : answer;
  } finally {
    forget();
    connection.say('CLOSE', name);
  }
}

export type ReadBack = ReturnType<typeof createReadBack>;

/** Asks back what a relay accepted: the first event of a kind, then one in twenty, and all while some are missing. */
export function createReadBack(
  connection: RelayConnection,
  clock: Clock,
  random: () => number,
  stop: AbortSignal,
) {
  const latest = new Map<number, SignedEvent>();
  let isAsking = false;
  let missesInARow = 0;
  let missing = 0;
  let stores: Stores = 'unknown';

  async function check(event: SignedEvent): Promise<void> {
    isAsking = true;
    const { signal, release } = anySignal(stop);
    try {
      await clock.sleep(SETTLE_MS, signal);
      const presence = await askFor(connection, event, clock, signal);
      const mayBeReplaced = isReplaceable(event.kind) && latest.get(event.kind) !== event;
      if (presence === 'there') {
        missesInARow = 0;
        stores = 'yes';
      } else if (presence === 'absent' && !mayBeReplaced) {
        missing++;
        if (++missesInARow >= MISSES_FOR_NO) stores = 'no';
      }
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      release();
      isAsking = false;
    }
  }

  return {
    get stores() {
      return stores;
    },
    /** Accepted events that were not there when asked for. */
    get missing() {
      return missing;
    },
    /** The relay accepted this. */
    note(event: SignedEvent): void {
      const isFirst = !latest.has(event.kind);
      latest.set(event.kind, event);
      const isDue = missesInARow > 0 || random() < SAMPLED_SHARE;
      if (isFirst || (isDue && !isAsking)) void check(event);
    },
  };
}

const AUTH_KIND = 22_242;
/** A challenge may come after the refusal it explains. */
const CHALLENGE_MS = 5000;
const ANSWER_MS = 10_000;
const MAX_CHALLENGE_LENGTH = 500;

export type SignIn = ReturnType<typeof createSignIn>;

/** Proves a key to one relay: one AUTH per challenge, for all that waits for it. */
export function createSignIn(connection: RelayConnection, signer: Signer, clock: Clock) {
  let known: string | undefined;
  /** What became of the AUTH for this challenge: nothing, or why it failed. */
  let proof: Promise<string | undefined> | undefined;
  const changed = createNotifier();

  function set(challenge: string | undefined): void {
    known = challenge;
    proof = undefined;
    changed.notify();
  }

  async function answer(challenge: string): Promise<string | undefined> {
    const event = authEvent(signer, connection.url, challenge, clock.now());
    const { answer, forget } = connection.answers.expectOk(event.id);
    connection.say('AUTH', event);
    const heard = await within(answer, ANSWER_MS, clock);
    forget();
    if (!heard) return 'no answer to AUTH';
    return heard.type === 'ok' && heard.accepted ? undefined : heard.message || 'AUTH was refused';
  }

  return {
    hear(challenge: string): void {
      if (challenge !== known && challenge.length <= MAX_CHALLENGE_LENGTH) set(challenge);
    },
    /** The connection ended, and its challenge with it. */
    forget: () => set(undefined),
    /** Why the relay does not know us, in words; undefined once it does. */
    async prove(signal: AbortSignal): Promise<string | undefined> {
      if (known === undefined)
        await notifiedOrDeadline(changed, clock, clock.now() + CHALLENGE_MS, signal);
      if (known === undefined) return 'the relay wants AUTH and sent no challenge';
      proof ??= answer(known);
      return unlessAborted(proof, signal);
    },
  };
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
