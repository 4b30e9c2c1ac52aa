/**
 * Who holds how much of something bounded, and what leaves first when it is full: of whoever holds most beyond a small
 * guaranteed share, the oldest; when nobody is beyond it, the oldest of whoever came after the first 64. So one author
 * cannot push out another, and many new ones cannot push out those who were there before them.
 */

/** Holders that keep a guaranteed share each, in order of coming; together they are guaranteed half. */
const ESTABLISHED = 64;

/** Down to this part of what the heaviest held, nobody looks again who is heaviest. */
const GIVEN = 31 / 32;

interface Holder<T> {
  readonly items: Map<T, number>;
  weight: number;
}

export class FairShares<T> {
  readonly #guaranteed: number;
  /** In order of their first item. */
  readonly #holders = new Map<string, Holder<T>>();
  /** Those beyond the guaranteed share: few, because the shares are shares of a bounded whole. */
  readonly #heavy = new Map<string, Holder<T>>();
  #weight = 0;
  /** Who held most when it was last looked, and gives up until it holds a little less. */
  #giving: { name: string; holder: Holder<T>; until: number } | undefined;

  constructor(capacity: number) {
    this.#guaranteed = Math.floor(capacity / (2 * ESTABLISHED));
  }

  /** Of all items together. */
  get weight(): number {
    return this.#weight;
  }

  add(name: string, item: T, weight: number): void {
    const holder = this.#holders.get(name) ?? { items: new Map<T, number>(), weight: 0 };
    this.#holders.set(name, holder);
    holder.items.set(item, weight);
    this.#change(name, holder, weight);
  }

  remove(name: string, item: T): void {
    const holder = this.#holders.get(name);
    const weight = holder?.items.get(item);
    if (!holder || weight === undefined) return;
    holder.items.delete(item);
    if (holder.items.size === 0) this.#holders.delete(name);
    this.#change(name, holder, -weight);
  }

  /** What leaves first, and whose it is; undefined when there is nothing. */
  first(): readonly [name: string, item: T] | undefined {
    const [name, holder] = this.#heaviest() ?? this.#newcomer() ?? [];
    const item = holder?.items.keys().next();
    return name === undefined || !item || item.done ? undefined : [name, item.value];
  }

  #change(name: string, holder: Holder<T>, weight: number): void {
    holder.weight += weight;
    this.#weight += weight;
    if (holder.weight > this.#guaranteed) this.#heavy.set(name, holder);
    else this.#heavy.delete(name);
  }

  #heaviest(): [string, Holder<T>] | undefined {
    const giving = this.#giving;
    if (giving && this.#heavy.get(giving.name) === giving.holder) {
      if (giving.holder.weight > giving.until) return [giving.name, giving.holder];
    }
    let best: [string, Holder<T>] | undefined;
    for (const each of this.#heavy) if (!best || each[1].weight > best[1].weight) best = each;
    this.#giving = best && { name: best[0], holder: best[1], until: best[1].weight * GIVEN };
    return best;
  }

  /** The first of those who are not established. */
  #newcomer(): [string, Holder<T>] | undefined {
    let last: [string, Holder<T>] | undefined;
    let count = 0;
    for (const each of this.#holders) {
      last = each;
      if (++count > ESTABLISHED) break;
    }
    return last;
  }
}
