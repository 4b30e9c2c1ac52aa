/**
 * A clock that moves by itself from one due moment to the next as soon as nothing is left to do in this one: everything
 * that the process has begun, turns of relays included, ends before time moves on, so that a run is the same every time.
 */

import type { Clock } from 'nostrain/base';
import { Heap } from '../../../relay/turns.ts';
import { onAbort } from '../../../src/base/async.ts';

interface Due {
  /** Undefined once it is no longer wanted. */
  call: (() => void) | undefined;
}

/** The clock cannot move on: something that it waits for always begins anew. */
export class Restless extends Error {
  constructor() {
    super('a second of the run does not end');
  }
}

/** Counts what waits for the next turn of the event loop, so that its end can be waited for. */
function countImmediates(): { readonly waiting: number; restore(): void } {
  const real = globalThis.setImmediate;
  let waiting = 0;
  const counted = (call: (...args: unknown[]) => void, ...args: unknown[]) => {
    waiting++;
    return real(() => {
      waiting--;
      call(...args);
    });
  };
  globalThis.setImmediate = Object.assign(counted, real) as typeof setImmediate;
  return {
    get waiting() {
      return waiting;
    },
    restore: () => {
      globalThis.setImmediate = real;
    },
  };
}

const START_MS = 1_800_000_000_000;

export class VirtualClock implements Clock {
  readonly #moments = new Heap<number>((a, b) => a < b);
  readonly #due = new Map<number, Due[]>();
  readonly #immediates = countImmediates();
  readonly #turn = globalThis.setImmediate;
  #nowMs = START_MS;
  readonly #mostSteps: number;
  /** In the second that ends at `#secondEnds`. */
  #steps = 0;
  #secondEnds = 0;
  #isRestless = false;

  /** Calls of the clock and turns of the event loop are steps; `mostSteps` limits those in a second of the run. */
  constructor(mostSteps = Number.POSITIVE_INFINITY) {
    this.#mostSteps = mostSteps;
  }

  now(): number {
    this.#countStep();
    return this.#nowMs;
  }

  /** Throws if this second of the run has too many steps; that ends a loop that reads the clock and never waits. */
  #countStep(): void {
    if (this.#nowMs >= this.#secondEnds) {
      this.#steps = 0;
      this.#secondEnds = this.#nowMs + 1000;
    }
    if (++this.#steps <= this.#mostSteps) return;
    this.#steps = 0;
    this.#isRestless = true;
    throw new Restless();
  }

  /** Calls at that moment, or in the next one where it is over. */
  at(ms: number, call: () => void): Due {
    const due: Due = { call };
    const moment = Math.max(Math.ceil(ms), this.#nowMs);
    const list = this.#due.get(moment);
    if (list) list.push(due);
    else {
      this.#due.set(moment, [due]);
      this.#moments.add(moment);
    }
    return due;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const due = this.at(this.#nowMs + ms, () => {
        release?.();
        resolve();
      });
      const release =
        signal &&
        onAbort(signal, () => {
          due.call = undefined;
          reject(signal.reason);
        });
    });
  }

  /**
   * Moves on until it holds; throws when it does not by then, or nothing is due any more. Throws `Restless` if a second
   * of the run does not end.
   */
  async runUntil(holds: () => boolean, lastMs: number): Promise<void> {
    await this.#settle();
    while (!holds()) {
      if (this.#isRestless) throw new Restless();
      const next = this.#moments.first;
      if (next === undefined || next > lastMs) {
        throw new Error(`it did not come to pass in ${(lastMs - this.#nowMs) / 1000} s of the run`);
      }
      this.#nowMs = next;
      this.#moments.take();
      const list = this.#due.get(next)!;
      this.#due.delete(next);
      let isIdle = true;
      for (const { call } of list) {
        if (!call) continue;
        isIdle = false;
        this.#countStep();
        call();
      }
      if (!isIdle) await this.#settle();
    }
  }

  /** The event loop has its own way of turns back. */
  close(): void {
    this.#immediates.restore();
  }

  async #settle(): Promise<void> {
    do {
      this.#countStep();
      // its own turn is counted as long as it waits
      await new Promise<void>((resolve) => this.#turn(() => resolve()));
    } while (this.#immediates.waiting > 0);
  }
}
