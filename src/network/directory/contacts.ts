/**
 * The tables of a holder server: Kademlia's k-buckets of other holders (Maymounkov & Mazières 2002) around its own key,
 * and which holders announced which objects, with a limit for each address that announces.
 */
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { HolderRecord } from '../wire/holders.ts';
import { newer } from '../wire/judged.ts';

/** Maximum records of one bucket, and of one answer. */
export const BUCKET = 16;

/** Target of a lookup: an object, or the key of a holder. */
export type Target = Digest | WorkerId;

/** Maximum objects whose holders are stored, and maximum holders of each. */
const MOST_OBJECTS = 1024;
const MOST_OF_OBJECT = 16;
/** Holders of one object that one address may announce. */
const MOST_FROM_SOURCE = 2;

/** The IP address (or IPv6 network) that sent an announcement. */
export type AnnouncementSource = string;
/** Source of records that this machine looked up itself or got from its own network; it has no limit. */
export const friend: AnnouncementSource = 'friend';

interface Announced {
  readonly record: HolderRecord;
  readonly source: AnnouncementSource;
}

/** Reports whether `a` is nearer to the target than `b` by XOR. Keys and targets are 64 lowercase hex digits. */
export function isNearer(a: WorkerId, b: WorkerId, target: Target): boolean {
  for (let i = 0; i < 64; i++) {
    if (a[i] === b[i]) continue;
    const digit = Number.parseInt(target[i]!, 16);
    return (Number.parseInt(a[i]!, 16) ^ digit) < (Number.parseInt(b[i]!, 16) ^ digit);
  }
  return false;
}

/** Returns the number of leading bits that two keys share. */
export function sharedBits(a: string, b: string): number {
  let i = 0;
  while (i < 64 && a[i] === b[i]) i++;
  if (i === 64) return 256;
  const differ = Number.parseInt(a[i]!, 16) ^ Number.parseInt(b[i]!, 16);
  return 4 * i + Math.clz32(differ) - 28;
}

/** Returns the items nearest to a target, nearest first. */
export const nearest = <T extends { readonly key: WorkerId }>(
  records: Iterable<T>,
  target: Target,
  count: number,
): readonly T[] =>
  [...records].sort((a, b) => (isNearer(a.key, b.key, target) ? -1 : 1)).slice(0, count);

/** The known holders, and which holders announced which objects. */
export class Contacts {
  readonly #localKey: WorkerId;
  /** Records by the number of bits shared with our key; in each bucket, the longest known first. */
  readonly #buckets = new Map<number, Map<WorkerId, HolderRecord>>();
  readonly #holders = new Map<Target, Map<WorkerId, Announced>>();

  constructor(localKey: WorkerId) {
    this.#localKey = localKey;
  }

  /**
   * Stores a record, or replaces an older one of the same key. A full bucket keeps the records it has had longest,
   * since those holders are likeliest to stay, unless they have expired (`now` is in unix seconds). If the tables of
   * objects are full, the source with the most entries loses one, so that one address cannot push out other holders.
   */
  add(record: HolderRecord, now: number, source: AnnouncementSource = friend): void {
    if (record.key !== this.#localKey) addTo(this.#bucketOf(record.key), record, now);
    for (const object of record.held) this.#addHolder(object, { record, source }, now);
  }

  /** Removes a holder that does not answer. */
  remove(key: WorkerId): void {
    this.#bucketOf(key).delete(key);
    for (const [object, holders] of this.#holders) {
      if (holders.delete(key) && holders.size === 0) this.#holders.delete(object);
    }
  }

  /** Returns holders that announced an object, then those nearest to it; expired ones are left out. */
  answer(object: Target, now: number): readonly HolderRecord[] {
    const isGood = ({ expiresAt }: HolderRecord) => expiresAt > now;
    const announced = [...(this.#holders.get(object)?.values() ?? [])];
    const holding = announced.map(({ record }) => record).filter(isGood);
    const all = [...this.#buckets.values()].flatMap((bucket) => [...bucket.values()]);
    const others = nearest(all.filter(isGood), object, BUCKET);
    const keys = new Set(holding.map(({ key }) => key));
    return [...holding, ...others.filter(({ key }) => !keys.has(key))];
  }

  #bucketOf(key: WorkerId): Map<WorkerId, HolderRecord> {
    const bits = sharedBits(this.#localKey, key);
    const bucket = this.#buckets.get(bits) ?? new Map<WorkerId, HolderRecord>();
    this.#buckets.set(bits, bucket);
    return bucket;
  }

  #addHolder(object: Target, { record, source }: Announced, now: number): void {
    const holders = this.#holders.get(object) ?? new Map<WorkerId, Announced>();
    const before = holders.get(record.key);
    if (before !== undefined) {
      if (newer(record, before.record)) holders.set(record.key, { record, source });
      return;
    }
    for (const [key, each] of holders) if (each.record.expiresAt <= now) holders.delete(key);
    const sources = [...holders.values()].map((each) => each.source);
    const isMine = (each: AnnouncementSource) => each === source;
    if (source !== friend && sources.filter(isMine).length >= MOST_FROM_SOURCE) return;
    if (holders.size >= MOST_OF_OBJECT) {
      const largest = largestOf(sources);
      if (largest === undefined) return;
      holders.delete([...holders].find(([, each]) => each.source === largest)![0]);
    }
    if (!this.#holders.has(object) && !this.#makeSpace(source)) return;
    holders.set(record.key, { record, source });
    this.#holders.set(object, holders);
  }

  /** Deletes the oldest object of the source that named the most objects. Returns false if that is this source. */
  #makeSpace(source: AnnouncementSource): boolean {
    if (this.#holders.size < MOST_OBJECTS) return true;
    const firstSource = ([, holders]: readonly [Target, Map<WorkerId, Announced>]) =>
      [...holders.values()][0]?.source ?? friend;
    const all = [...this.#holders];
    const largest = largestOf(all.map(firstSource));
    const oldest = all.find((each) => firstSource(each) === largest) ?? all[0]!;
    if (largest === source && source !== friend) return false;
    this.#holders.delete(oldest[0]);
    return true;
  }
}

/**
 * Returns the source with the most entries, of those with more than one, except `friend`; undefined if no source has
 * more than one.
 */
function largestOf(sources: readonly AnnouncementSource[]): AnnouncementSource | undefined {
  const counts = new Map<AnnouncementSource, number>();
  for (const each of sources) counts.set(each, (counts.get(each) ?? 0) + 1);
  counts.delete(friend);
  const [largest] = [...counts].sort(([, a], [, b]) => b - a);
  return largest !== undefined && largest[1] > 1 ? largest[0] : undefined;
}

function addTo(records: Map<WorkerId, HolderRecord>, record: HolderRecord, now: number): void {
  const before = records.get(record.key);
  if (before !== undefined) {
    if (newer(record, before)) records.set(record.key, record);
    return;
  }
  if (records.size >= BUCKET) {
    const gone = [...records.values()].find(({ expiresAt }) => expiresAt <= now);
    if (gone === undefined) return;
    records.delete(gone.key);
  }
  records.set(record.key, record);
}
