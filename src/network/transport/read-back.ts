/** Asking relays for events by id: after silence, and now and then after an OK, which does not prove that an event is kept. */

import type { Clock } from '../../base/async.ts';
import { anySignal } from '../../base/async.ts';
import type { SignedEvent } from '../event.ts';
import type { Found } from './answers.ts';
import type { RelayConnection } from './connection.ts';
import { within } from './deadline.ts';

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

/** Asks for one event by id; undefined when there was no answer. Nobody keeps ephemeral events, so they are not asked for. */
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
  /** The latest event accepted of each kind. */
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

  /** Accepted events that were not there when asked for. */
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
