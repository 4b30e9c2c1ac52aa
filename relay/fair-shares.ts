/**
 * Who holds how much of something bounded, and what leaves first when it is full: of whoever holds most beyond a small
 * guaranteed share, the oldest; when nobody is beyond it, the oldest of whoever came after the first 64. So one author
 * cannot push out another, and many new ones cannot push out those who were there before them.
 */

/** Holders that keep a guaranteed share each, first come; together they are guaranteed half. */
const ESTABLISHED = 64;
/** Down to this part of what the heaviest held, nobody looks again who is heaviest. */
const GIVEN = 31 / 32;
/** A queue is tidied once it is this much longer than what it still holds, and twice as long. */
const SLACK = 32;

/** A place in a queue; whoever leaves empties it, so that nothing of them stays in memory. */
interface QueueEntry<T> {
  member: T | undefined;
}

/** FIFO queue whose members may leave from any position; a `Map` would skip over all that left on every look. */
class Queue<T> {
  #entries: QueueEntry<T>[] = [];
  #head = 0;

  /** Adds a member; `size` is how many there are. */
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
  /** Among the newcomers. */
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
  /** Those who came when others were established. */
  readonly #newcomers = new Queue<Holder<T>>();
  /** Those beyond the guaranteed share: few, because the shares are shares of a bounded whole. */
  readonly #heavy = new Set<Holder<T>>();
  #weight = 0;
  /** Who held most when it was last looked, and gives up until it holds a little less. */
  #giving: { holder: Holder<T>; until: number } | undefined;

  constructor(capacity: number) {
    this.#guaranteed = Math.floor(capacity / (2 * ESTABLISHED));
  }

  /** Of all items together. */
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
    const weight = holder?.items.get(item);
    if (!holder || !weight) return;
    holder.items.delete(item);
    weight.entry.member = undefined;
    this.#change(holder, -weight.weight);
    if (holder.items.size > 0) return;
    if (holder.entry) holder.entry.member = undefined;
    this.#holders.delete(name);
    this.#established.delete(holder);
  }

  /** What leaves first, and whose it is; undefined when there is nothing. */
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
