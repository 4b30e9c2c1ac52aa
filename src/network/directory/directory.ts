/**
 * The directory of holders: the contacts of a holder server in Kademlia's k-buckets (Maymounkov & Mazières 2002), its
 * answers and announcements as text, and the iterative lookup over disjoint paths (Baumgart & Mies 2007), so that a
 * liar misleads only its own path. All input comes from strangers: its size is bounded before it is parsed, and
 * signatures are verified.
 */
import { isHex32, utf8 } from '../../base/bytes.ts';
import { isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
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

/** Maximum size of an announcement; one with 64 objects and four contacts is shorter. */
export const MOST_EVENT_BYTES = 8192;
/** Maximum records per answer: holders of an object and those nearest to it. */
const MOST_RECORDS = 2 * BUCKET;
export const MOST_ANSWER_BYTES = MOST_RECORDS * MOST_EVENT_BYTES;
/** Maximum announcements per minute whose signatures are checked: in total, and from one address. */
const MOST_A_MINUTE = 600;
const MOST_FROM_ONE = 60;

export interface DirectoryOptions {
  readonly localKey: WorkerId;
  /** Returns the current time in Unix seconds. */
  now(): number;
  readonly crypto: EventCrypto;
  /** Whether contacts in private networks are allowed. */
  readonly allowPrivate: boolean;
}

/** The directory of one holder server. */
export class Directory {
  readonly contacts: Contacts;
  readonly #options: DirectoryOptions;
  /** This server's own announcement; included in answers, so that others learn its key. */
  localRecord: SignedEvent | undefined;
  #minute = 0;
  /** Signatures checked in the current minute, by source. */
  readonly #checked = new Map<AnnouncementSource, number>();

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.contacts = new Contacts(options.localKey);
  }

  /** Returns the answer to a lookup as JSON; undefined if the target is not 64 hex digits. */
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

/** Returns the verified records of an answer, each key once; undefined if it is malformed. */
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

/** Returns a verified announcement with the contacts that may be queried; refuses it if no contact is left. */
function recordOf(
  json: Json,
  now: number,
  crypto: EventCrypto,
  allowPrivate: boolean,
  mayVerify: () => boolean = () => true,
): Result<HolderRecord> {
  const event: Result<SignedEvent> = parseEvent(json);
  if (!event.ok) return event;
  // the fields are cheaper to check than the signature
  const record = readHolder(event.value, now);
  if (!record.ok) return record;
  const contacts = record.value.contacts.filter((url) => allowPrivate || isAskable(url));
  if (contacts.length === 0) return refuse('no-contact', 'content', 'no contact may be queried');
  if (!mayVerify()) return refuse('busy', '', 'too many announcements a minute');
  const verified = verifyEvent(event.value, crypto);
  return verified.ok ? ok({ ...record.value, contacts }) : verified;
}

/**
 * Reports whether the form of an address from a stranger allows a query; the address it resolves to is checked on
 * connecting.
 */
export const isAskable = (url: string): boolean =>
  hintProblem(url.replace(/^http/, 'ws')) === undefined;

export interface LookupOptions {
  /** Contacts to start from: from relays, or from an earlier lookup. */
  readonly contacts: readonly HolderRecord[];
  /** Returns the verified answer of a contact; undefined or rejects if it does not answer. */
  ask(contact: HolderRecord, target: Target): Promise<readonly HolderRecord[] | undefined>;
  /** Number of answering holders of the object after which the lookup ends; 0 looks only for the nearest contacts. */
  readonly enough: number;
  /** Maximum queries in total. */
  readonly mostAsks?: number | undefined;
}

export interface Lookup {
  /** Holders that announced the object and answered, in the order found. */
  readonly holders: readonly HolderRecord[];
  /** Contacts that answered, nearest to the target first; at most BUCKET. */
  readonly nearest: readonly HolderRecord[];
  readonly asks: number;
  /** Length of the chain of queries that led to the last holder found. */
  readonly hops: number;
  /** Contacts that did not answer. */
  readonly silent: readonly WorkerId[];
}

const PATHS = 3;
const MOST_ASKS = 64;
/** Number of nearest contacts of a path that must have answered before the path ends. */
const CLOSE = 8;
/** A contact is ignored once the dead contacts that it returned exceed the live ones by this number. */
const MOST_FALSE = 3;

interface Candidate {
  readonly record: HolderRecord;
  readonly hop: number;
  /** The contact that returned it; undefined for a start contact. */
  readonly by: WorkerId | undefined;
}

/** Looks up holders of the target. */
export const searchDirectory = (target: Target, options: LookupOptions): Promise<Lookup> =>
  new Search(target, options).run();

class Search {
  readonly #target: Target;
  readonly #options: LookupOptions;
  readonly #seen = new Set<WorkerId>();
  readonly #answered = new Map<WorkerId, HolderRecord>();
  readonly #holders: HolderRecord[] = [];
  readonly #silent: WorkerId[] = [];
  /** Dead minus live contacts that each contact returned. */
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
    // with fewer contacts than paths, the first answer is shared out among the paths
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

  /** Follows one path: always queries the nearest new contact, until the nearest ones have all answered. */
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

  /** Orders candidates: those that announced the object first, then by distance. */
  #rank(a: Candidate, b: Candidate): number {
    const [first, second] = [this.#claimsTarget(a.record), this.#claimsTarget(b.record)];
    return first === second ? this.#order(a.record, b.record) : first ? -1 : 1;
  }

  #isSpent({ record, by }: Candidate): boolean {
    const isFalse = by !== undefined && (this.#falseNames.get(by) ?? 0) >= MOST_FALSE;
    return isFalse || this.#seen.has(record.key);
  }

  /** Queries one contact and returns the contacts that it names; an empty list if it does not answer. */
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
