/**
 * Sends events of a round once more, to relays that do not have them: each is asked first, since a rate is for what is new. They give way to
 * all else, and what is on its way already is not sent twice.
 */
import { anySignal } from '../../base/async.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';

export interface ResendingOptions {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
}

/** How long one relay may take to say which it has. */
const ASK_MS = 5000;

export class Resending {
  readonly #options: ResendingOptions;
  /** By relay and event. */
  readonly #underWay = new Map<string, AbortController>();
  readonly #rounds = new Map<AbortController, number>();

  constructor(options: ResendingOptions) {
    this.#options = options;
  }

  /** Events of the round in progress, or of the one before. */
  send(events: readonly SignedEvent[], round: number): void {
    for (const relay of this.#options.relays.relays) void this.#sendTo(relay, events, round);
  }

  /** What rounds before this one needed is sent no more. */
  forgetBefore(round: number): void {
    for (const [stop, of] of this.#rounds) if (of < round) stop.abort(new Error('over'));
  }

  async #sendTo(relay: string, all: readonly SignedEvent[], round: number): Promise<void> {
    const events = all.filter(({ id }) => !this.#underWay.has(`${relay} ${id}`));
    if (events.length === 0) return;
    const stop = new AbortController();
    this.#rounds.set(stop, round);
    for (const { id } of events) this.#underWay.set(`${relay} ${id}`, stop);
    const { signal, release } = anySignal(this.#options.signal, stop.signal);
    try {
      const lacking = await this.#lackingAt(relay, events, signal);
      const { relays } = this.#options;
      const how = { only: [relay], signal, isPatient: true };
      await Promise.all(lacking.map((event) => relays.publish(event, how)));
    } catch {
      // the round, or the run, is over
    } finally {
      release();
      for (const { id } of events) this.#underWay.delete(`${relay} ${id}`);
      this.#rounds.delete(stop);
    }
  }

  async #lackingAt(
    relay: string,
    events: readonly SignedEvent[],
    signal: AbortSignal,
  ): Promise<readonly SignedEvent[]> {
    const ids = events.map(({ id }) => id);
    const asking = { only: [relay], waitMs: ASK_MS, signal };
    const { events: held } = await this.#options.relays.query([{ ids }], asking);
    const has = new Set(held.map(({ id }) => id));
    return events.filter(({ id }) => !has.has(id));
  }
}
