/**
 * Shares a bounded capacity among holders, and chooses what to evict when it is full: the oldest item of the holder
 * that most exceeds a small guaranteed share; if none exceeds it, the oldest item of the first holder after the 64
 * established ones. So one author cannot displace another, and many new ones cannot displace those who came before.
 */

/** Number of holders with a guaranteed share, first come, first served; together they are guaranteed half. */
const ESTABLISHED = 64;
/** The heaviest holder is chosen anew once it is down to this share of its weight. */
const GIVEN = 31 / 32;
/** A queue is compacted once it is longer than twice its members plus this. */
const SLACK = 32;

/** An entry of a queue; emptied when the member leaves, so that it can be freed. */
interface QueueEntry<T> {
  member: T | undefined;
}

/** FIFO queue whose members may leave from any position. A `Map` would skip all deleted entries on each access. */
class Queue<T> {
  #entries: QueueEntry<T>[] = [];
  #head = 0;

  /** Adds a member; `size` is the number of members. */
  push(member: T, size: number): QueueEntry<T> {
    const entry = { member };
    this.#entries.push(entry);
    if (this.#entries.length > 2 * size + SLACK) {
      this.#entries = this.#entries.slice(this.#head).filter((each) => each.member !== undefined);
      this.#head = 0;
    }
    return entry;
  }

  first(): T | undefined {
    while (this.#head < this.#entries.length) {
      const { member } = this.#entries[this.#head]!;
      if (member !== undefined) return member;
      this.#head++;
    }
    return undefined;
  }
}

class Holder<T> {
  readonly name: string;
  readonly items = new Map<T, { readonly weight: number; readonly entry: QueueEntry<T> }>();
  readonly queue = new Queue<T>();
  /** Its entry in the queue of newcomers. */
  entry: QueueEntry<Holder<T>> | undefined;
  weight = 0;

  constructor(name: string) {
    this.name = name;
  }
}

export class FairShares<T> {
  readonly #guaranteed: number;
  readonly #holders = new Map<string, Holder<T>>();
  readonly #established = new Set<Holder<T>>();
  /** Holders that came after the established ones. */
  readonly #newcomers = new Queue<Holder<T>>();
  /** Holders above the guaranteed share: few, since the shares are fractions of a bounded whole. */
  readonly #heavy = new Set<Holder<T>>();
  #weight = 0;
  /** The heaviest holder when last checked, and the weight down to which it stays the one to evict from. */
  #giving: { holder: Holder<T>; until: number } | undefined;

  constructor(capacity: number) {
    this.#guaranteed = Math.floor(capacity / (2 * ESTABLISHED));
  }

  /** Total weight of all items. */
  get weight(): number {
    return this.#weight;
  }

  add(name: string, item: T, weight: number): void {
    const holder = this.#holders.get(name) ?? this.#welcome(name);
    const entry = holder.queue.push(item, holder.items.size + 1);
    holder.items.set(item, { weight, entry });
    this.#change(holder, weight);
  }

  remove(name: string, item: T): void {
    const holder = this.#holders.get(name);
    const stored = holder?.items.get(item);
    if (!holder || !stored) return;
    holder.items.delete(item);
    stored.entry.member = undefined;
    this.#change(holder, -stored.weight);
    if (holder.items.size > 0) return;
    if (holder.entry) holder.entry.member = undefined;
    this.#holders.delete(name);
    this.#established.delete(holder);
  }

  /** Returns the item to evict and the name of its holder; undefined if there are no items. */
  first(): readonly [name: string, item: T] | undefined {
    const holder =
      this.#heaviest() ?? this.#newcomers.first() ?? this.#established.values().next().value;
    const item = holder?.queue.first();
    return holder && item !== undefined ? [holder.name, item] : undefined;
  }

  #welcome(name: string): Holder<T> {
    const holder = new Holder<T>(name);
    this.#holders.set(name, holder);
    if (this.#established.size < ESTABLISHED) this.#established.add(holder);
    else holder.entry = this.#newcomers.push(holder, this.#holders.size);
    return holder;
  }

  #change(holder: Holder<T>, weight: number): void {
    holder.weight += weight;
    this.#weight += weight;
    if (holder.weight > this.#guaranteed) this.#heavy.add(holder);
    else this.#heavy.delete(holder);
  }

  #heaviest(): Holder<T> | undefined {
    const giving = this.#giving;
    if (giving && this.#heavy.has(giving.holder) && giving.holder.weight > giving.until) {
      return giving.holder;
    }
    let best: Holder<T> | undefined;
    for (const each of this.#heavy) if (!best || each.weight > best.weight) best = each;
    this.#giving = best && { holder: best, until: best.weight * GIVEN };
    return best;
  }
}
