/**
 * Shares the event loop between connections: work is done in slices, so much in one turn of the loop, and of those who
 * wait for the next turn whoever has used least goes first. A scan of the whole store delays others by one slice.
 */

/** Work that says, step by step, how many units it has done since the last step; a unit is about a microsecond. */
export type Work<T> = Generator<number, T, void>;

/** What one connection, or all connections of one public address, cost the others. */
export interface Account {
  /** Units of the event loop so far. */
  used: number;
  /** Bytes of open subscriptions. */
  subscribed: number;
}

/** Units of one turn; what is begun within them may go beyond by its own size. */
const TURN_UNITS = 4000;

interface Waiting {
  readonly account: Account;
  /** What the account had used when it was put in line: by now perhaps more, never less. */
  used: number;
  /** Of those who have used the same, who came first. */
  readonly number: number;
  go(): void;
}

const isBefore = (a: Waiting, b: Waiting): boolean =>
  a.used < b.used || (a.used === b.used && a.number < b.number);

/** A binary heap: whoever has used least is on top. */
class Line {
  readonly #heap: Waiting[] = [];

  add(waiting: Waiting): void {
    const heap = this.#heap;
    let at = heap.push(waiting) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isBefore(waiting, heap[above]!)) break;
      heap[at] = heap[above]!;
      at = above;
    }
    heap[at] = waiting;
  }

  /** Takes out whoever has used least by now. */
  take(): Waiting | undefined {
    for (;;) {
      const first = this.#heap[0];
      if (!first) return undefined;
      const last = this.#heap.pop()!;
      if (this.#heap.length > 0) this.#sink(last);
      if (first.account.used === first.used) return first;
      first.used = first.account.used;
      this.add(first);
    }
  }

  #sink(waiting: Waiting): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below++;
      if (!isBefore(heap[below]!, waiting)) break;
      heap[at] = heap[below]!;
      at = below;
    }
    heap[at] = waiting;
  }
}

/** Does all of the work at once. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

export class Turns {
  readonly #line = new Line();
  #came = 0;
  #spent = 0;
  #most = 0;
  /** What whoever went last had used: nobody saves up by doing nothing. */
  #floor = 0;
  #isPlanned = false;

  /** The most units that one turn has taken so far. */
  get most(): number {
    return this.#most;
  }

  spend(account: Account, units: number): void {
    account.used = Math.max(account.used, this.#floor) + units;
    this.#spent += units;
    this.#most = Math.max(this.#most, this.#spent);
    this.#plan();
  }

  /** Resolves when it is the account's turn; undefined when this turn has room left. */
  next(account: Account): Promise<void> | undefined {
    if (this.#spent < TURN_UNITS) return undefined;
    account.used = Math.max(account.used, this.#floor);
    const { used } = account;
    return new Promise((go) => this.#line.add({ account, used, number: this.#came++, go }));
  }

  /** Does the work in slices; undefined when it was given up because nobody wants it any more. */
  async run<T>(
    account: Account,
    work: Work<T>,
    isWanted: () => boolean = () => true,
  ): Promise<T | undefined> {
    for (;;) {
      const step = work.next();
      if (step.done) return step.value;
      this.spend(account, step.value);
      await this.next(account);
      if (!isWanted()) return undefined;
    }
  }

  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#spent = 0;
      this.#begin();
    });
  }

  /** Lets one of those who wait go on. */
  #begin(): void {
    const first = this.#line.take();
    if (!first) return;
    this.#floor = Math.max(this.#floor, first.used);
    first.go();
    this.#plan();
  }
}
