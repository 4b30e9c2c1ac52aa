/** Republishes events of a round to relays that lack them. They give way to all else, and nothing is sent twice. */
import { anySignal } from '../../base/async.ts';
import type { SignedEvent } from '../../network/event.ts';
import { republishMissing } from '../../network/transport/delivery.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';

export interface ResendingOptions {
  readonly relays: RelaySet;
  readonly signal: AbortSignal;
}

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
      const how = { signal, isPatient: true };
      await republishMissing(this.#options.relays, relay, events, how);
    } catch {
      // the round, or the run, is over
    } finally {
      release();
      for (const { id } of events) this.#underWay.delete(`${relay} ${id}`);
      this.#rounds.delete(stop);
    }
  }
}
