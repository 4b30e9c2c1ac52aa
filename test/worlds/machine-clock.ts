/** The clock of one machine: ahead of the world's or behind it, and faster or slower. */
import type { Clock } from 'nostrain/base';

export class MachineClock implements Clock {
  readonly #world: Clock;
  readonly #startMs: number;
  #aheadMs = 0;
  #rate = 1;

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

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#world.sleep(ms / this.#rate, signal);
  }
}
