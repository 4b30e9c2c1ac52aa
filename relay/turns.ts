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

/** A binary heap: of what it holds, the first in order is on top. */
export class Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #all: T[] = [];

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#all[0];
  }

  add(one: T): void {
    const all = this.#all;
    let at = all.push(one) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#isBefore(one, all[above]!)) break;
      all[at] = all[above]!;
      at = above;
    }
    all[at] = one;
  }

  take(): T | undefined {
    const all = this.#all;
    const first = all[0];
    const last = all.pop();
    if (all.length > 0) this.#sink(last!);
    return first;
  }

  #sink(one: T): void {
    const all = this.#all;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= all.length) break;
      if (below + 1 < all.length && this.#isBefore(all[below + 1]!, all[below]!)) below++;
      if (!this.#isBefore(all[below]!, one)) break;
      all[at] = all[below]!;
      at = below;
    }
    all[at] = one;
  }
}

/** Takes out whoever has used least by now. */
function takeLeast(line: Heap<Waiting>): Waiting | undefined {
  for (;;) {
    const first = line.take();
    if (!first || first.account.used === first.used) return first;
    first.used = first.account.used;
    line.add(first);
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
  readonly #line = new Heap(isBefore);
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

  /** Resolves when it is the account's turn; undefined if this turn has budget left. */
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
    const first = takeLeast(this.#line);
    if (!first) return;
    this.#floor = Math.max(this.#floor, first.used);
    first.go();
    this.#plan();
  }
}
