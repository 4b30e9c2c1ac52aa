/**
 * Records of deleted events (NIP-09) and vanished authors (NIP-62), which must not be stored again. Bounded per author.
 */
import { createHash } from 'node:crypto';
import { DELETION_KIND, type Entry, isHex, ownersOf, slotOf, VANISH_KIND } from './event.ts';
import { FairShares } from './fair-shares.ts';
import type { Work } from './turns.ts';

/** Maximum marks, about 200 bytes each. */
const MAX_MARKS = 100_000;
/** Longer names are marked by their hash. */
const NAME_CHARS = 200;

/** Tags marked per step, and the cost of one. */
const [STEP, MARK_UNITS] = [128, 5] as const;

export class Tombstones {
  /** For each name: events up to this `created_at`, in seconds, are deleted. */
  readonly #until = new Map<string, number>();
  readonly #shares = new FairShares<string>(MAX_MARKS);

  get size(): number {
    return this.#until.size;
  }

  /** Marks what a deletion or a request to vanish deletes. */
  *mark({ pubkey, kind, tags, created_at }: Entry): Work<void> {
    if (kind === VANISH_KIND) this.#mark(pubkey, `v${pubkey}`, created_at);
    if (kind !== DELETION_KIND) return;
    for (const [i, [name, value = '']] of tags.entries()) {
      if (i % STEP === STEP - 1) yield STEP * MARK_UNITS;
      if (name === 'e' && isHex(value, 64)) {
        this.#mark(pubkey, `e${pubkey}${value}`, Number.MAX_SAFE_INTEGER);
      } else if (name === 'a' && value.split(':', 2)[1] === pubkey) {
        this.#mark(pubkey, nameOf(`s${slotName(value)}`), created_at);
      }
    }
  }

  /** Reports whether a mark deletes the event. Deletions and requests to vanish cannot be deleted by deletions. */
  covers(event: Entry): boolean {
    if (this.#until.size === 0) return false;
    const { id, pubkey, kind, created_at } = event;
    if (kind === VANISH_KIND) return false;
    if (ownersOf(event).some((key) => created_at <= this.#limit(`v${key}`))) return true;
    if (kind === DELETION_KIND) return false;
    if (created_at <= this.#limit(`e${pubkey}${id}`)) return true;
    const slot = slotOf(event);
    return slot !== undefined && created_at <= this.#limit(nameOf(`s${slot}`));
  }

  #limit(name: string): number {
    return this.#until.get(name) ?? -1;
  }

  #mark(author: string, name: string, until: number): void {
    if (!this.#until.has(name)) this.#shares.add(author, name, 1);
    this.#until.set(name, Math.max(until, this.#limit(name)));
    const first = this.#until.size > MAX_MARKS ? this.#shares.first() : undefined;
    if (!first) return;
    this.#shares.remove(...first);
    this.#until.delete(first[1]);
  }
}

const nameOf = (name: string): string =>
  name.length > NAME_CHARS ? createHash('sha256').update(name).digest('base64') : name;

/** Returns the slot of an address: a replaceable event's address has an empty `d`, its slot has none. */
export const slotName = (address: string): string => {
  const kind = Number(address.split(':', 1)[0]);
  return kind >= 30_000 && kind < 40_000 ? address : address.replace(/:$/, '');
};
