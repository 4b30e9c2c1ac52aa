/** What may not come back: events deleted by their authors (NIP-09) and authors who vanished (NIP-62). */
import { DELETION_KIND, type Entry, ownersOf, slotOf, VANISH_KIND, valuesOf } from './event.ts';

/** Marks kept at most; beyond it the oldest are forgotten. */
const MAX_MARKS = 1_000_000;

export class Tombstones {
  /** Until when, in seconds of `created_at`, what the name stands for is gone. */
  readonly #until = new Map<string, number>();

  /** Marks what a deletion or a request to vanish takes away. */
  mark(event: Entry): void {
    const { pubkey, kind, tags, created_at } = event;
    if (kind === VANISH_KIND) this.#mark(`v${pubkey}`, created_at);
    if (kind !== DELETION_KIND) return;
    for (const id of valuesOf(tags, 'e')) this.#mark(`e${pubkey}${id}`, Number.MAX_SAFE_INTEGER);
    for (const address of valuesOf(tags, 'a')) {
      if (address.split(':')[1] === pubkey) this.#mark(`s${slotName(address)}`, created_at);
    }
  }

  /** Whether a mark takes the event away. Deletions and requests to vanish are no target of deletions. */
  covers(event: Entry): boolean {
    const { id, pubkey, kind, created_at } = event;
    if (kind === VANISH_KIND) return false;
    if (ownersOf(event).some((key) => created_at <= this.#limit(`v${key}`))) return true;
    if (kind === DELETION_KIND) return false;
    if (created_at <= this.#limit(`e${pubkey}${id}`)) return true;
    const slot = slotOf(event);
    return slot !== undefined && created_at <= this.#limit(`s${slot}`);
  }

  #limit(name: string): number {
    return this.#until.get(name) ?? -1;
  }

  #mark(name: string, until: number): void {
    this.#until.set(name, Math.max(until, this.#limit(name)));
    for (const oldest of this.#until.keys()) {
      if (this.#until.size <= MAX_MARKS) return;
      this.#until.delete(oldest);
    }
  }
}

/** An address of a replaceable event is written with an empty `d` and stored without one. */
const slotName = (address: string): string => {
  const kind = Number(address.split(':')[0]);
  return kind >= 30_000 && kind < 40_000 ? address : address.replace(/:$/, '');
};
