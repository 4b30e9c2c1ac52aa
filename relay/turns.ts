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
  go(): void;
}

/** Does all of the work at once. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

export class Turns {
  readonly #waiting: Waiting[] = [];
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
    return new Promise((go) => this.#waiting.push({ account, go }));
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
    if (this.#waiting.length === 0) return;
    let first = 0;
    for (let i = 1; i < this.#waiting.length; i++) {
      if (this.#waiting[i]!.account.used < this.#waiting[first]!.account.used) first = i;
    }
    const [{ account, go }] = this.#waiting.splice(first, 1) as [Waiting];
    this.#floor = Math.max(this.#floor, account.used);
    go();
    this.#plan();
  }
}
