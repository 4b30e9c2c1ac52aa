/** How fast a relay took probe events, and what it did when that was too fast. */

import type { RateReport } from '../cli/relays-check/report.ts';

export class Pace {
  #rate: RateReport = { accepted: 0, seconds: 0 };
  #firstMs: number | undefined;
  #throttledMs: number | undefined;

  get rate(): RateReport {
    return this.#rate;
  }

  accept(nowMs: number): void {
    this.#firstMs ??= nowMs;
    const { accepted, againAfterSeconds } = this.#rate;
    if (this.#throttledMs === undefined) {
      this.#rate = { accepted: accepted + 1, seconds: (nowMs - this.#firstMs) / 1000 };
    } else if (againAfterSeconds === undefined) {
      this.#rate = { ...this.#rate, againAfterSeconds: (nowMs - this.#throttledMs) / 1000 };
    }
  }

  /** Only the first time counts. */
  throttle(nowMs: number, words: string): void {
    if (this.#throttledMs !== undefined) return;
    this.#throttledMs = nowMs;
    const seconds = (nowMs - (this.#firstMs ?? nowMs)) / 1000;
    this.#rate = { ...this.#rate, seconds, throttled: words };
  }
}
