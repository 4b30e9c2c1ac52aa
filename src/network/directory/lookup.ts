/**
 * Finds who holds an object by asking holders for nearer ones, hop by hop (Kademlia's iterative lookup). Lookups go on several paths that share no
 * contact (Baumgart & Mies 2007), so that whoever lies leads only its own path astray; what one lookup may cost is bounded whatever is answered.
 */
import type { WorkerId } from '../../run/ids.ts';
import type { HolderRecord } from '../wire/holders.ts';
import { BUCKET, isNearer, type Target } from './contacts.ts';

export interface LookupOptions {
  /** Known from before: from relays, or from who was asked last time. */
  readonly contacts: readonly HolderRecord[];
  /** What a contact answers, verified; undefined or a rejection where it does not. */
  ask(contact: HolderRecord, target: Target): Promise<readonly HolderRecord[] | undefined>;
  /** Ends early when so many holders of the object have answered that they are there; 0 looks for the nearest contacts alone. */
  readonly enough: number;
  /** Asks in all. */
  readonly mostAsks?: number | undefined;
}

export interface Lookup {
  /** Who says by a signature that it holds the object, and answered; the first found first. */
  readonly holders: readonly HolderRecord[];
  /** Who answered, nearest to the target first; at most a bucket. */
  readonly nearest: readonly HolderRecord[];
  readonly asks: number;
  /** Asks after each other on the way to the last holder found. */
  readonly hops: number;
  /** Who did not answer. */
  readonly silent: readonly WorkerId[];
}

const PATHS = 3;
const MOST_ASKS = 64;
/** Nearest of a path that have to have answered before it ends. */
const CLOSE = 8;
/** Who named so many that were not there, and nobody who was, is not believed any more. */
const MOST_FALSE = 3;

interface Candidate {
  readonly record: HolderRecord;
  readonly hop: number;
  /** Who named it; undefined of one known from before. */
  readonly by: WorkerId | undefined;
}

/** Looks for holders of the target. */
export const lookUp = (target: Target, options: LookupOptions): Promise<Lookup> =>
  new Search(target, options).run();

class Search {
  readonly #target: Target;
  readonly #options: LookupOptions;
  readonly #seen = new Set<WorkerId>();
  readonly #answered = new Map<WorkerId, HolderRecord>();
  readonly #holders: HolderRecord[] = [];
  readonly #silent: WorkerId[] = [];
  /** Names that led to nobody, less those that led to somebody, by who gave them. */
  readonly #falseNames = new Map<WorkerId, number>();
  #asks = 0;
  #hops = 0;

  constructor(target: Target, options: LookupOptions) {
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<Lookup> {
    const { contacts } = this.#options;
    const paths: Candidate[][] = Array.from({ length: PATHS }, () => []);
    const known = [...contacts].sort((a, b) => this.#order(a, b));
    known.forEach((record, i) => {
      paths[i % PATHS]!.push({ record, hop: 1, by: undefined });
    });
    // with fewer contacts than paths, the first answer is dealt among those that have none
    const [first = []] = paths;
    if (known.length > 0 && known.length < PATHS) await this.#deal(paths, first);
    await Promise.all(paths.map((path) => this.#follow(path)));
    const nearest = [...this.#answered.values()].sort((a, b) => this.#order(a, b));
    return {
      holders: this.#holders,
      nearest: nearest.slice(0, BUCKET),
      asks: this.#asks,
      hops: this.#hops,
      silent: this.#silent,
    };
  }

  #order(a: HolderRecord, b: HolderRecord): number {
    return isNearer(a.key, b.key, this.#target) ? -1 : 1;
  }

  get #isDone(): boolean {
    const { enough, mostAsks = MOST_ASKS } = this.#options;
    return this.#asks >= mostAsks || (enough > 0 && this.#holders.length >= enough);
  }

  async #deal(paths: readonly Candidate[][], first: Candidate[]): Promise<void> {
    const start = first.shift()!;
    const named = await this.#askOne(start);
    named.forEach((candidate, i) => {
      paths[i % PATHS]!.push(candidate);
    });
  }

  /** One path: always the nearest that was not asked, until the nearest have all answered. */
  async #follow(path: Candidate[]): Promise<void> {
    let close: HolderRecord[] = [];
    while (!this.#isDone) {
      path.sort((a, b) => this.#rank(a, b));
      const next = path.shift();
      if (next === undefined) return;
      const isFar = close.length >= CLOSE && !this.#isNearer(next.record, close.at(-1)!);
      if (isFar && !this.#says(next.record)) return;
      if (this.#isSpent(next)) continue;
      const named = await this.#askOne(next);
      if (this.#answered.has(next.record.key)) {
        close = [...close, next.record].sort((a, b) => this.#order(a, b)).slice(0, CLOSE);
      }
      path.push(...named);
    }
  }

  #isNearer(a: HolderRecord, b: HolderRecord): boolean {
    return isNearer(a.key, b.key, this.#target);
  }

  #says(record: HolderRecord): boolean {
    const held: readonly Target[] = record.held;
    return held.includes(this.#target);
  }

  /** Who says it holds the object first, then the nearest. */
  #rank(a: Candidate, b: Candidate): number {
    const [first, second] = [this.#says(a.record), this.#says(b.record)];
    return first === second ? this.#order(a.record, b.record) : first ? -1 : 1;
  }

  #isSpent({ record, by }: Candidate): boolean {
    const isFalse = by !== undefined && (this.#falseNames.get(by) ?? 0) >= MOST_FALSE;
    return isFalse || this.#seen.has(record.key);
  }

  /** Asks one contact and gives whom it names; nobody where it does not answer. */
  async #askOne({ record, hop, by }: Candidate): Promise<readonly Candidate[]> {
    this.#seen.add(record.key);
    this.#asks++;
    const answer = await this.#options.ask(record, this.#target).catch(() => undefined);
    if (by !== undefined) {
      const count = (this.#falseNames.get(by) ?? 0) + (answer === undefined ? 1 : -1);
      this.#falseNames.set(by, count);
    }
    if (answer === undefined) {
      this.#silent.push(record.key);
      return [];
    }
    this.#answered.set(record.key, record);
    if (this.#says(record)) {
      this.#holders.push(record);
      this.#hops = hop;
    }
    const fresh = answer.filter(({ key }) => !this.#seen.has(key)).slice(0, 2 * BUCKET);
    return fresh.map((each) => ({ record: each, hop: hop + 1, by: record.key }));
  }
}
