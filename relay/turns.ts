/**
 * Schedules work of all connections fairly: work is done in slices, with a budget per turn of the event loop, and the
 * waiting account that has used the least goes next. A scan of the whole store delays others by one slice.
 */

/** Work that yields, step by step, how many units it has done since the last step; a unit is about a microsecond. */
export type Work<T> = Generator<number, T, void>;

/** Cost of one connection, or of all connections of one public address. */
export interface Account {
  /** Units used so far. */
  used: number;
  /** Bytes of open subscriptions. */
  subscribed: number;
}

/** Units per turn; a step that begins within them may exceed them. */
const TURN_UNITS = 4000;

interface Waiting {
  readonly account: Account;
  /** Units the account had used when it was queued; it may have used more since. */
  used: number;
  /** Order of arrival, which breaks ties. */
  readonly number: number;
  go(): void;
}

const isBefore = (a: Waiting, b: Waiting): boolean =>
  a.used < b.used || (a.used === b.used && a.number < b.number);

/** A binary heap with the smallest item on top. */
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

/** Removes the waiting item whose account has used the least by now. */
function takeLeast(line: Heap<Waiting>): Waiting | undefined {
  for (;;) {
    const first = line.take();
    if (!first || first.account.used === first.used) return first;
    first.used = first.account.used;
    line.add(first);
  }
}

/** Runs all of the work at once. */
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
  /** Units used by the last account served: idle accounts start from here, so that they cannot save up. */
  #floor = 0;
  #isPlanned = false;

  /** Maximum units of one turn so far. */
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

  /** Runs the work in slices; returns undefined if `isWanted` became false. */
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

  /** Lets the next waiting account continue. */
  #begin(): void {
    const first = takeLeast(this.#line);
    if (!first) return;
    this.#floor = Math.max(this.#floor, first.used);
    first.go();
    this.#plan();
  }
}
