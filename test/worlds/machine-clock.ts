/** The clock of one machine: ahead of the world's or behind it, faster or slower, and it can stop. */
import type { Clock } from 'nostrain/base';

export class MachineClock implements Clock {
  readonly #world: Clock;
  readonly #startMs: number;
  #aheadMs = 0;
  #rate = 1;
  #wakesMs = 0;

  constructor(world: Clock) {
    this.#world = world;
    this.#startMs = world.now();
  }

  /** Sets how far it is ahead at the beginning, and how many parts in a million it gains. */
  set(aheadMs: number, gainPpm: number): void {
    this.#aheadMs = aheadMs;
    this.#rate = 1 + gainPpm / 1e6;
  }

  now(): number {
    const passedMs = (this.#world.now() - this.#startMs) * this.#rate;
    return Math.floor(this.#startMs + this.#aheadMs + passedMs);
  }

  /** Stops all timers until that moment of the world; the time of day goes on. */
  suspend(untilMs: number): void {
    this.#wakesMs = Math.max(this.#wakesMs, untilMs);
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    await this.#world.sleep(ms / this.#rate, signal);
    while (this.#world.now() < this.#wakesMs) {
      await this.#world.sleep(this.#wakesMs - this.#world.now(), signal);
    }
  }
}
