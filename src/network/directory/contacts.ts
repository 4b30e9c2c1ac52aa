/**
 * The holders that a holder knows, in k-buckets by XOR distance of their keys to its own (Kademlia; Maymounkov & Mazières 2002): many that are near
 * and few of each distance beyond, so that a table of some hundred leads to anybody in a few hops. Records are verified and bounded.
 */
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { HolderRecord } from '../wire/holders.ts';
import { newer } from '../wire/judged.ts';

/** What is looked for: an object, or a holder by its key. */
export type Target = Digest | WorkerId;

/** Records of one bucket, and of one answer. */
export const BUCKET = 16;
/** Objects of which is kept who holds them, and holders of each. */
const MOST_OBJECTS = 1024;
const MOST_OF_OBJECT = 16;

/** Whether `a` is nearer to the target than `b` by XOR; keys and targets are 64 lowercase hex digits. */
export function isNearer(a: WorkerId, b: WorkerId, target: Target): boolean {
  for (let i = 0; i < 64; i++) {
    if (a[i] === b[i]) continue;
    const digit = Number.parseInt(target[i]!, 16);
    return (Number.parseInt(a[i]!, 16) ^ digit) < (Number.parseInt(b[i]!, 16) ^ digit);
  }
  return false;
}

/** Leading bits that two keys share. */
export function sharedBits(a: string, b: string): number {
  let i = 0;
  while (i < 64 && a[i] === b[i]) i++;
  if (i === 64) return 256;
  const differ = Number.parseInt(a[i]!, 16) ^ Number.parseInt(b[i]!, 16);
  return 4 * i + Math.clz32(differ) - 28;
}

/** The nearest to a target, nearest first. */
export const nearest = <T extends { readonly key: WorkerId }>(
  records: Iterable<T>,
  target: Target,
  count: number,
): readonly T[] =>
  [...records].sort((a, b) => (isNearer(a.key, b.key, target) ? -1 : 1)).slice(0, count);

/** Who is known, and who says they hold what. */
export class Contacts {
  readonly #own: WorkerId;
  /** By bits shared with our key; the longest known first. */
  readonly #buckets = new Map<number, Map<WorkerId, HolderRecord>>();
  readonly #held = new Map<Target, Map<WorkerId, HolderRecord>>();

  constructor(own: WorkerId) {
    this.#own = own;
  }

  /** Records in buckets. */
  get size(): number {
    let size = 0;
    for (const bucket of this.#buckets.values()) size += bucket.size;
    return size;
  }

  /**
   * Takes a record, newer than one of the same key. A full bucket keeps whom it has known longest, as those are likeliest to stay, unless they
   * have expired (unix seconds).
   */
  add(record: HolderRecord, now: number): void {
    if (record.key !== this.#own) this.#addTo(this.#bucketOf(record.key), record, BUCKET, now);
    for (const object of record.held) this.#addHolder(object, record, now);
  }

  /** Who does not answer is forgotten. */
  remove(key: WorkerId): void {
    this.#bucketOf(key).delete(key);
    for (const [object, holders] of this.#held) {
      if (holders.delete(key) && holders.size === 0) this.#held.delete(object);
    }
  }

  /** Those that hold an object by their own word, then those nearest to it; expired ones never. */
  answer(object: Target, now: number): readonly HolderRecord[] {
    const isGood = ({ expiresAt }: HolderRecord) => expiresAt > now;
    const holding = [...(this.#held.get(object)?.values() ?? [])].filter(isGood);
    const all = [...this.#buckets.values()].flatMap((bucket) => [...bucket.values()]);
    const others = nearest(all.filter(isGood), object, BUCKET);
    const keys = new Set(holding.map(({ key }) => key));
    return [...holding, ...others.filter(({ key }) => !keys.has(key))];
  }

  #bucketOf(key: WorkerId): Map<WorkerId, HolderRecord> {
    const bits = sharedBits(this.#own, key);
    const bucket = this.#buckets.get(bits) ?? new Map<WorkerId, HolderRecord>();
    this.#buckets.set(bits, bucket);
    return bucket;
  }

  #addHolder(object: Target, record: HolderRecord, now: number): void {
    const holders = this.#held.get(object) ?? new Map<WorkerId, HolderRecord>();
    if (!this.#held.has(object) && this.#held.size >= MOST_OBJECTS) {
      // the one asked to be remembered first gives way
      const [first] = this.#held.keys();
      this.#held.delete(first!);
    }
    this.#held.set(object, holders);
    this.#addTo(holders, record, MOST_OF_OBJECT, now);
  }

  #addTo(
    records: Map<WorkerId, HolderRecord>,
    record: HolderRecord,
    most: number,
    now: number,
  ): void {
    const before = records.get(record.key);
    if (before !== undefined) {
      if (newer(record, before)) records.set(record.key, record);
      return;
    }
    if (records.size >= most) {
      const gone = [...records.values()].find(({ expiresAt }) => expiresAt <= now);
      if (gone === undefined) return;
      records.delete(gone.key);
    }
    records.set(record.key, record);
  }
}
