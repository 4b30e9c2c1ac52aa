/** A priority queue of scheduled actions, ordered by time and then by insertion. */
interface Entry {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export class Agenda {
  readonly #heap: Entry[] = [];
  #order = 0;

  add(at: number, run: () => void): void {
    const heap = this.#heap;
    let i = heap.push({ at, order: this.#order++, run }) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!isBefore(heap[i]!, heap[parent]!)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  /** Removes and returns the next action. */
  next(): Entry | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    heap[0] = last;
    let i = 0;
    for (;;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
      }
      if (least === i) return top;
      this.#swap(i, least);
      i = least;
    }
  }

  #swap(i: number, j: number): void {
    const heap = this.#heap;
    [heap[i], heap[j]] = [heap[j]!, heap[i]!];
  }
}

const isBefore = (a: Entry, b: Entry): boolean =>
  a.at < b.at || (a.at === b.at && a.order < b.order);
