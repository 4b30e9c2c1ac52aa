/**
 * The directory of holders: whom a holder server knows, in Kademlia's k-buckets (Maymounkov & Mazières 2002), its
 * answers and announcements as texts, and the lookup hop by hop on disjoint paths (Baumgart & Mies 2007), so that a
 * liar leads only its own path astray. Everything that comes in is from strangers: bounded before it is read, and
 * verified.
 */
import { isHex32, utf8 } from '../../base/bytes.ts';
import { isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import type { EventCrypto } from '../event-crypto.ts';
import { hintProblem } from '../transport/relay-urls.ts';
import { type HolderRecord, readHolder } from '../wire/holders.ts';
import {
  type AnnouncementSource,
  BUCKET,
  Contacts,
  friend,
  isNearer,
  type Target,
} from './contacts.ts';

/** An announcement with its 64 objects and four contacts is shorter. */
export const MOST_EVENT_BYTES = 8192;
/** Holders of an object and those nearest to it. */
const MOST_RECORDS = 2 * BUCKET;
export const MOST_ANSWER_BYTES = MOST_RECORDS * MOST_EVENT_BYTES;
/** Announcements whose signatures are checked in a minute, in all and from one address. */
const MOST_A_MINUTE = 600;
const MOST_FROM_ONE = 60;

export interface DirectoryOptions {
  readonly localKey: WorkerId;
  /** Unix seconds. */
  now(): number;
  readonly crypto: EventCrypto;
  /** Contacts in private networks are fine. */
  readonly allowPrivate: boolean;
}

/** What a holder server knows of others. */
export class Directory {
  readonly contacts: Contacts;
  readonly #options: DirectoryOptions;
  /** What this server says of itself: whoever asks it learns its key so. */
  localRecord: SignedEvent | undefined;
  #minute = 0;
  /** Signatures checked in this minute, by source. */
  readonly #checked = new Map<AnnouncementSource, number>();

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.contacts = new Contacts(options.localKey);
  }

  /** JSON for whoever asks for these 64 hex digits; undefined where they are none. */
  answer(target: string): string | undefined {
    if (!isHex32(target)) return undefined;
    const records = this.contacts.answer(target, this.#options.now()).slice(0, MOST_RECORDS - 1);
    const local = this.localRecord ? [this.localRecord] : [];
    return JSON.stringify({ holders: [...local, ...records.map(({ event }) => event)] });
  }

  /** Verifies and stores an announcement; `source` is the address that sent it, or `friend`. */
  take(text: string, source: AnnouncementSource): Result<HolderRecord> {
    const { now, crypto, allowPrivate } = this.#options;
    if (utf8(text).length > MOST_EVENT_BYTES) return refuse('too-large', '', 'too long');
    const json = parseJson(text);
    const mayVerify = () => this.#mayVerify(source);
    const read = json.ok ? recordOf(json.value, now(), crypto, allowPrivate, mayVerify) : json;
    if (read.ok) this.contacts.add(read.value, now(), source);
    return read;
  }

  #mayVerify(source: AnnouncementSource): boolean {
    const minute = Math.floor(this.#options.now() / 60);
    if (minute !== this.#minute) this.#checked.clear();
    this.#minute = minute;
    const all = [...this.#checked.values()].reduce((sum, each) => sum + each, 0);
    const before = this.#checked.get(source) ?? 0;
    if (all >= MOST_A_MINUTE || (source !== friend && before >= MOST_FROM_ONE)) return false;
    this.#checked.set(source, before + 1);
    return true;
  }
}

/** The records of an answer of anyone, verified, each key once; undefined where it is no answer. */
export function readAnswer(
  text: string,
  { now, crypto, allowPrivate }: Omit<DirectoryOptions, 'localKey'>,
): readonly HolderRecord[] | undefined {
  if (text.length > MOST_ANSWER_BYTES) return undefined;
  const json = parseJson(text);
  if (!json.ok || !isJsonObject(json.value) || !Array.isArray(json.value.holders)) return undefined;
  const events: readonly Json[] = json.value.holders;
  const records = new Map<WorkerId, HolderRecord>();
  for (const event of events.slice(0, MOST_RECORDS)) {
    const read = recordOf(event, now(), crypto, allowPrivate);
    if (read.ok) records.set(read.value.key, read.value);
  }
  return [...records.values()];
}

/** A verified announcement with the contacts that may be asked, of which there has to be one. */
function recordOf(
  json: Json,
  now: number,
  crypto: EventCrypto,
  allowPrivate: boolean,
  mayVerify: () => boolean = () => true,
): Result<HolderRecord> {
  const event: Result<SignedEvent> = parseEvent(json);
  if (!event.ok) return event;
  // what an announcement says is cheaper to judge than its signature
  const record = readHolder(event.value, now);
  if (!record.ok) return record;
  const contacts = record.value.contacts.filter((url) => allowPrivate || isAskable(url));
  if (contacts.length === 0) return refuse('no-contact', 'content', 'no contact that may be asked');
  if (!mayVerify()) return refuse('busy', '', 'too many announcements a minute');
  const verified = verifyEvent(event.value, crypto);
  return verified.ok ? ok({ ...record.value, contacts }) : verified;
}

/**
 * Whether an address that a stranger names may be asked as far as its form tells; where its name leads is judged
 * when it is dialled.
 */
export const isAskable = (url: string): boolean =>
  hintProblem(url.replace(/^http/, 'ws')) === undefined;

export interface LookupOptions {
  /** Known from before: from relays, or from who was asked last time. */
  readonly contacts: readonly HolderRecord[];
  /** What a contact answers, verified; undefined or a rejection where it does not. */
  ask(contact: HolderRecord, target: Target): Promise<readonly HolderRecord[] | undefined>;
  /**
   * Ends early when so many holders of the object have answered that they are there; 0 looks for the nearest
   * contacts alone.
   */
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
export const searchDirectory = (target: Target, options: LookupOptions): Promise<Lookup> =>
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
      if (isFar && !this.#claimsTarget(next.record)) return;
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

  #claimsTarget(record: HolderRecord): boolean {
    const objects: readonly Target[] = record.held;
    return objects.includes(this.#target);
  }

  /** Who says it holds the object first, then the nearest. */
  #rank(a: Candidate, b: Candidate): number {
    const [first, second] = [this.#claimsTarget(a.record), this.#claimsTarget(b.record)];
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
    if (this.#claimsTarget(record)) {
      this.#holders.push(record);
      this.#hops = hop;
    }
    const fresh = answer.filter(({ key }) => !this.#seen.has(key)).slice(0, 2 * BUCKET);
    return fresh.map((each) => ({ record: each, hop: hop + 1, by: record.key }));
  }
}
