/**
 * Checks of one relay: reads back accepted events to see whether it stores them, and proves our key to it (NIP-42).
 */
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

/** Whether a relay is known to store what it accepts. */
export type Stores = 'unknown' | 'yes' | 'no';

const QUESTION_MS = 3000;
/** Time an accepted event may need until it can be read. */
const SETTLE_MS = 2000;
const SAMPLED_SHARE = 1 / 20;
/** Missing events in a row before a relay counts as losing events: a single one may be an accident. */
const MISSES_FOR_NO = 2;

const isEphemeral = (kind: number): boolean => kind >= 20_000 && kind < 30_000;

/** Reports whether a newer event of the same kind, author and `d` replaces an older one. */
const isReplaceable = (kind: number): boolean =>
  kind === 0 ||
  kind === 3 ||
  (kind >= 10_000 && kind < 20_000) ||
  (kind >= 30_000 && kind < 40_000);

/** Queries one event by id; undefined if there is no answer. Ephemeral events are not queried. */
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

/**
 * Reads back events that a relay accepted: the first of each kind, then one in twenty, and all while some are missing.
 */
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

  /** Notes that the relay has an event that it accepted. */
  function notePresence(): void {
    missesInARow = 0;
    stores = 'yes';
  }

  /** Reports whether the relay has the event, or a newer one that may have replaced it. */
  async function check(event: SignedEvent, signal: AbortSignal): Promise<boolean> {
    await clock.sleep(SETTLE_MS, signal);
    const presence = await askFor(connection, event, clock, signal);
    if (presence === 'there') notePresence();
    if (presence !== 'absent') return presence === 'there';
    if (isReplaceable(event.kind) && latest.get(event.kind) !== event) return true;
    missing++;
    if (++missesInARow >= MISSES_FOR_NO) stores = 'no';
    return false;
  }

  async function checkLater(event: SignedEvent): Promise<void> {
    isAsking = true;
    const { signal, release } = anySignal(stop);
    try {
      await check(event, signal);
    } catch (error) {
      if (!stop.aborted) throw error;
    } finally {
      release();
      isAsking = false;
    }
  }

  return {
    notePresence,
    get stores() {
      return stores;
    },
    /** Number of accepted events that could not be read back. */
    get missing() {
      return missing;
    },
    /**
     * Notes an event that the relay accepted, and reports whether that counts: at a relay that loses events, only once
     * the event was read back.
     */
    async counts(event: SignedEvent, signal: AbortSignal): Promise<boolean> {
      const isFirst = !latest.has(event.kind);
      latest.set(event.kind, event);
      if (stores === 'no') return isEphemeral(event.kind) || (await check(event, signal));
      const isDue = missesInARow > 0 || random() < SAMPLED_SHARE;
      if (isFirst || (isDue && !isAsking)) void checkLater(event);
      return true;
    },
  };
}

const AUTH_KIND = 22_242;
/** How long to wait for a challenge: it may come after the refusal that requires it. */
const CHALLENGE_MS = 5000;
const ANSWER_MS = 10_000;
const MAX_CHALLENGE_LENGTH = 500;

export type SignIn = ReturnType<typeof createSignIn>;

/** Authenticates one key at a relay: one AUTH per challenge, shared by all callers. */
export function createSignIn(connection: RelayConnection, signer: Signer, clock: Clock) {
  let known: string | undefined;
  /** Result of AUTH for this challenge: undefined on success, otherwise the reason. */
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
    /** Forgets the challenge: it ended with the connection. */
    forget: () => set(undefined),
    /** Returns why the relay did not accept our key, or undefined if it did. */
    async prove(signal: AbortSignal): Promise<string | undefined> {
      if (known === undefined)
        await notifiedOrDeadline(changed, clock, clock.now() + CHALLENGE_MS, signal);
      if (known === undefined) return 'the relay requires AUTH but sent no challenge';
      proof ??= answer(known);
      return unlessAborted(proof, signal);
    },
  };
}

/** Returns the event that proves a key to the relay at this address. */
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
