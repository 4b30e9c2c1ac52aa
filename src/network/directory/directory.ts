/**
 * The directory at a holder server, as texts that go over HTTP: answers to whoever asks for an object, and
 * announcements that it takes. Everything that comes in is from strangers: lengths and counts are bounded before
 * anything is read, and every event is verified.
 */
import { isHex32, utf8 } from '../../base/bytes.ts';
import { isJsonObject, type Json, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import type { EventCrypto } from '../event-crypto.ts';
import { hintProblem } from '../transport/relay-urls.ts';
import { type HolderRecord, readHolder } from '../wire/holders.ts';
import { BUCKET, Contacts } from './lookup.ts';

/** An announcement with its 64 objects and four contacts is shorter. */
export const MOST_EVENT_BYTES = 8192;
/** Holders of an object and those nearest to it. */
const MOST_RECORDS = 2 * BUCKET;
export const MOST_ANSWER_BYTES = MOST_RECORDS * MOST_EVENT_BYTES;
/** Announcements taken in a minute: each costs a signature to check. */
const MOST_A_MINUTE = 600;

export interface DirectoryOptions {
  readonly own: WorkerId;
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
  own: SignedEvent | undefined;
  #minute = 0;
  #taken = 0;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.contacts = new Contacts(options.own);
  }

  /** JSON for whoever asks for these 64 hex digits; undefined where they are none. */
  answer(target: string): string | undefined {
    if (!isHex32(target)) return undefined;
    const records = this.contacts.answer(target, this.#options.now()).slice(0, MOST_RECORDS - 1);
    const own = this.own ? [this.own] : [];
    return JSON.stringify({ holders: [...own, ...records.map(({ event }) => event)] });
  }

  /** Takes an announcement of anyone. */
  take(text: string): Result<HolderRecord> {
    const { now, crypto, allowPrivate } = this.#options;
    const minute = Math.floor(now() / 60);
    if (minute !== this.#minute) [this.#minute, this.#taken] = [minute, 0];
    if (++this.#taken > MOST_A_MINUTE) return refuse('busy', '', 'too many announcements a minute');
    if (utf8(text).length > MOST_EVENT_BYTES) return refuse('too-large', '', 'too long');
    const json = parseJson(text);
    const read = json.ok ? recordOf(json.value, now(), crypto, allowPrivate) : json;
    if (read.ok) this.contacts.add(read.value, now());
    return read;
  }
}

/** The records of an answer of anyone, verified, each key once; undefined where it is no answer. */
export function readAnswer(
  text: string,
  { now, crypto, allowPrivate }: Omit<DirectoryOptions, 'own'>,
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
): Result<HolderRecord> {
  const event: Result<SignedEvent> = parseEvent(json);
  if (!event.ok) return event;
  // what an announcement says is cheaper to judge than its signature
  const record = readHolder(event.value, now);
  if (!record.ok) return record;
  const contacts = record.value.contacts.filter((url) => allowPrivate || isAskable(url));
  if (contacts.length === 0) return refuse('no-contact', 'content', 'no contact that may be asked');
  const verified = verifyEvent(event.value, crypto);
  return verified.ok ? ok({ ...record.value, contacts }) : verified;
}

/**
 * Whether an address that a stranger names may be asked as far as its form tells; where its name leads is judged
 * when it is dialled.
 */
export const isAskable = (url: string): boolean =>
  hintProblem(url.replace(/^http/, 'ws')) === undefined;
