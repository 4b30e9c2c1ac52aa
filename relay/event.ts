/** NIP-01 events as a relay handles them: form, id, signature and class. Does not interpret the content. */
import { createHash } from 'node:crypto';
import { verifySignature } from './signature.ts';

/** What the store and filters need of an event; its content is only in the JSON. */
export interface Entry {
  readonly id: string;
  readonly pubkey: string;
  readonly created_at: number;
  readonly kind: number;
  readonly tags: readonly (readonly string[])[];
  /** The event as JSON, serialized once and sent unchanged to every subscriber. */
  readonly json: Buffer;
}

/** A received event: well-formed, not verified. */
export interface Arrival extends Entry {
  readonly content: string;
  readonly sig: string;
  /** The serialized tags and content inside `json`, for the id. */
  readonly hashed: readonly [tags: Buffer, content: Buffer];
}

/** Separator of tags and content in the JSON. */
const CONTENT = ',"content":';

const HEX = /^[0-9a-f]*$/;
export const isHex = (value: unknown, length: number): value is string =>
  typeof value === 'string' && value.length === length && HEX.test(value);

const isTags = (value: unknown): value is string[][] =>
  Array.isArray(value) &&
  value.every(
    (tag) => Array.isArray(tag) && tag.length > 0 && tag.every((item) => typeof item === 'string'),
  );

/** Reports whether this is a safe integer from 0 to `max`. */
export const isCount = (value: unknown, max = Number.MAX_SAFE_INTEGER): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Returns the event in `raw` without unknown fields, or a sentence that says what is wrong. `isPlain` says that the
 * JSON had no backslash, so that no string needs escaping and the content is not searched.
 */
export function parseArrival(raw: unknown, isPlain = false): Arrival | string {
  if (!isRecord(raw)) return 'event is not an object';
  const { id, pubkey, created_at, kind, tags, content, sig } = raw;
  if (!isHex(id, 64)) return 'id is not 64 lowercase hex characters';
  if (!isHex(pubkey, 64)) return 'pubkey is not 64 lowercase hex characters';
  if (!isHex(sig, 128)) return 'sig is not 128 lowercase hex characters';
  if (!isCount(created_at)) return 'created_at is not a whole number of seconds';
  if (!isCount(kind, 65_535)) return 'kind is not a whole number from 0 to 65535';
  if (!isTags(tags)) return 'tags are not lists of strings';
  if (typeof content !== 'string') return 'content is not a string';
  return { id, pubkey, created_at, kind, tags, content, sig, ...serialize(raw as Parsed, isPlain) };
}

type Parsed = Omit<Arrival, 'json' | 'hashed'>;

/** Serializes the event without spaces, in the order of NIP-01; the id is a hash over parts of the same bytes. */
function serialize(parsed: Parsed, isPlain: boolean) {
  const { id, pubkey, created_at, kind, tags, content, sig } = parsed;
  const times = `"created_at":${created_at},"kind":${kind}`;
  const start = `{"id":"${id}","pubkey":"${pubkey}",${times},"tags":`;
  const tagsJson = JSON.stringify(tags);
  const end = `,"sig":"${sig}"}`;
  const contentJson = isPlain ? `"${content}"` : JSON.stringify(content);
  const json = Buffer.from(`${start}${tagsJson}${CONTENT}${contentJson}${end}`);
  const tagsEnd = start.length + Buffer.byteLength(tagsJson);
  const hashed = [
    json.subarray(start.length, tagsEnd),
    json.subarray(tagsEnd + CONTENT.length, json.length - end.length),
  ] as const;
  return { json, hashed };
}

/** Returns what is wrong with the id or the signature (BIP-340), if anything. */
export function findForgery(event: Arrival): 'wrong-id' | 'wrong-signature' | undefined {
  const { id, pubkey, created_at, kind, hashed, sig } = event;
  const hash = createHash('sha256').update(`[0,"${pubkey}",${created_at},${kind},`);
  const digest = hash.update(hashed[0]).update(',').update(hashed[1]).update(']').digest();
  if (digest.toString('hex') !== id) return 'wrong-id';
  const valid = verifySignature(Buffer.from(sig, 'hex'), digest, Buffer.from(pubkey, 'hex'));
  return valid ? undefined : 'wrong-signature';
}

export const DELETION_KIND = 5;
export const VANISH_KIND = 62;
const GIFT_WRAP_KIND = 1059;
export const AUTH_KIND = 22_242;

/** Reports whether only its author may publish it (NIP-70). */
export const isProtected = ({ tags }: Entry): boolean => tags.some((tag) => tag[0] === '-');

/**
 * Returns the keys whose request to vanish deletes the event: its author, and the recipient of a gift wrap (NIP-62).
 */
export const ownersOf = ({ pubkey, kind, tags }: Entry): readonly string[] =>
  kind === GIFT_WRAP_KIND ? [pubkey, ...valuesOf(tags, 'p')] : [pubkey];

/** Returns the first values of all tags of one name. */
export const valuesOf = (tags: Entry['tags'], name: string): readonly string[] =>
  tags.filter((tag) => tag[0] === name && tag[1] !== undefined).map((tag) => tag[1]!);

export const isEphemeral = (kind: number): boolean => kind >= 20_000 && kind < 30_000;

/** Returns the name of the slot that keeps only its newest event; undefined for a regular event. */
export function slotOf({ kind, pubkey, tags }: Omit<Entry, 'json'>): string | undefined {
  if (kind === 0 || kind === 3 || (kind >= 10_000 && kind < 20_000)) return `${kind}:${pubkey}`;
  if (kind < 30_000 || kind >= 40_000) return undefined;
  const d = tags.find((tag) => tag[0] === 'd')?.[1] ?? '';
  return `${kind}:${pubkey}:${d}`;
}

/** Orders events newest first, by id within a second; of two versions, the first one stays. */
export const byRecency = (a: Entry, b: Entry): number =>
  b.created_at - a.created_at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** Returns when the event expires (NIP-40), in Unix seconds; undefined if it does not. */
export function expirationOf({ tags }: Entry): number | undefined {
  const text = tags.find((tag) => tag[0] === 'expiration')?.[1];
  const seconds = text === undefined || text === '' ? Number.NaN : Number(text);
  return Number.isFinite(seconds) ? seconds : undefined;
}
