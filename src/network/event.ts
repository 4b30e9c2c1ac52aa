/** Nostr events (NIP-01): strict parsing, ids and BIP-340 signatures. Does not interpret events. */

import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { ConfigError, ok, type Result, refuse } from '../base/errors.ts';
import { isCount, isHash, isObject, isWithin } from '../base/shape.ts';
import { type EventCrypto, pureCrypto, pureSchnorr, type Sha256Text } from './event-crypto.ts';

/** A Nostr event (NIP-01) before it is signed. */
export interface EventDraft {
  readonly kind: number;
  /** Unix seconds. */
  readonly created_at: number;
  readonly tags: readonly (readonly string[])[];
  readonly content: string;
}

/** A Nostr event (NIP-01) with its id and signature. */
export interface SignedEvent extends EventDraft {
  readonly id: string;
  readonly pubkey: string;
  readonly sig: string;
}

/** A key that signs events: in memory (`createSigner`), or held by a remote signer. */
export interface Signer {
  /** X-only, 64 lowercase hex characters. */
  readonly publicKey: string;
  sign(draft: EventDraft): SignedEvent;
}

const MAX_TAGS = 2000;
const MAX_TAG_ITEMS = 2000;
const MAX_TAG_ITEM_LENGTH = 8192;

/** SHA-256 of the canonical array of NIP-01, as hex. `JSON.stringify` is canonical for well-formed strings. */
export const eventId = (publicKey: string, draft: EventDraft, hash = pureCrypto.sha256Text) =>
  toHex(eventDigest(publicKey, draft, hash));

/** Hashes the canonical array. `isPlain`: the content has no escape sequences, so it is not searched for them. */
function eventDigest(
  publicKey: string,
  { created_at, kind, tags, content }: EventDraft,
  hash: Sha256Text,
  isPlain = false,
): Uint8Array {
  const start = JSON.stringify([0, publicKey, created_at, kind, tags]).slice(0, -1);
  return hash(`${start},${isPlain ? `"${content}"` : JSON.stringify(content)}]`);
}

/** Creates a signer that uses no randomness: the same draft always gets the same id and signature. */
export function createSigner(
  secretKey: Uint8Array,
  { sha256Text, schnorr }: EventCrypto = pureCrypto,
): Signer {
  const publicKey = publicKeyOf(secretKey);
  return {
    publicKey,
    sign({ kind, created_at, tags, content }) {
      const digest = eventDigest(publicKey, { kind, created_at, tags, content }, sha256Text);
      const sig = toHex(schnorr.sign(digest, secretKey));
      return { id: toHex(digest), pubkey: publicKey, created_at, kind, tags, content, sig };
    },
  };
}

function publicKeyOf(secretKey: Uint8Array): string {
  if (!secp256k1.utils.isValidSecretKey(secretKey)) {
    throw new ConfigError('key/invalid', 'invalid secret key', {
      hint: 'use 32 bytes that are not zero and below the order of secp256k1',
    });
  }
  return toHex(schnorr.getPublicKey(secretKey));
}

/** Reports whether a BIP-340 signature (hex) over 32 bytes is valid; malformed input is not. */
export function verifySignature(
  sig: string,
  message: Uint8Array,
  publicKey: string,
  schnorr = pureSchnorr,
): boolean {
  const signature = fromHex(sig);
  const key = fromHex(publicKey);
  return signature !== undefined && key !== undefined && schnorr.verify(signature, message, key);
}

/**
 * Returns the event, or refuses it with `bad-id` or `bad-signature`. `isPlain` says that its JSON had no backslash, so
 * no string needs escaping.
 */
export function verifyEvent(
  event: SignedEvent,
  { sha256Text, schnorr }: EventCrypto = pureCrypto,
  isPlain = false,
): Result<SignedEvent> {
  const digest = eventDigest(event.pubkey, event, sha256Text, isPlain);
  if (toHex(digest) !== event.id) {
    return refuse('bad-id', 'id', 'the id is not the hash of the event');
  }
  if (!verifySignature(event.sig, digest, event.pubkey, schnorr)) {
    return refuse('bad-signature', 'sig', 'the signature does not verify');
  }
  return ok(event);
}

/** Returns an event with its members in one order, so that equal events have equal JSON texts. */
export const inOrder = ({ id, pubkey, created_at, kind, tags, content, sig }: SignedEvent) =>
  ({ id, pubkey, created_at, kind, tags, content, sig }) satisfies SignedEvent;

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === '';

/** Returns a well-formed event without unknown fields; does not verify it. Never throws. */
export function parseEvent(json: unknown): Result<SignedEvent> {
  if (!isObject(json)) return refuse('malformed', '', 'an event is an object');
  const { id, pubkey, created_at, kind, tags, content, sig } = json;
  if (isAbsent(pubkey)) return refuse('unsigned', 'pubkey', 'pubkey is missing');
  if (isAbsent(id)) return refuse('unsigned', 'id', 'id is missing');
  if (isAbsent(sig)) return refuse('unsigned', 'sig', 'sig is missing');
  if (!isHash(id)) return refuse('malformed', 'id', 'not 32-byte hex');
  if (!isHash(pubkey)) return refuse('malformed', 'pubkey', 'not 32-byte hex');
  if (typeof sig !== 'string' || sig.length !== 128 || fromHex(sig) === undefined) {
    return refuse('malformed', 'sig', 'not 64-byte hex');
  }
  const draft = parseDraft({ created_at, kind, tags, content });
  return draft.ok ? ok({ id, pubkey, ...draft.value, sig }) : draft;
}

/** Returns the fields that the signature covers, well-formed, without unknown ones. */
export function parseDraft(json: Readonly<Record<string, unknown>>): Result<EventDraft> {
  const { created_at, kind, tags, content } = json;
  if (!isCount(created_at)) {
    return refuse('malformed', 'created_at', 'not a whole number of seconds');
  }
  if (!isWithin(0, 65_535)(kind))
    return refuse('malformed', 'kind', 'not a number from 0 to 65535');
  const read = parseTags(tags);
  if (!read.ok) return read;
  if (typeof content !== 'string') return refuse('malformed', 'content', 'not text');
  if (!content.isWellFormed()) return refuse('not-text', 'content', 'not well-formed text');
  return ok({ created_at, kind, tags: read.value, content });
}

function parseTags(tags: unknown): Result<readonly (readonly string[])[]> {
  if (!Array.isArray(tags)) return refuse('malformed', 'tags', 'not a list');
  if (tags.length > MAX_TAGS) return refuse('too-large', 'tags', `more than ${MAX_TAGS} tags`);
  for (const [i, tag] of tags.entries()) {
    const at = `tags.${i}`;
    if (!Array.isArray(tag) || tag.length === 0) return refuse('malformed', at, 'not a tag');
    if (tag.length > MAX_TAG_ITEMS) {
      return refuse('too-large', at, `more than ${MAX_TAG_ITEMS} items`);
    }
    for (const item of tag) {
      if (typeof item !== 'string') return refuse('malformed', at, 'not text');
      if (!item.isWellFormed()) return refuse('not-text', at, 'not well-formed text');
      if (item.length > MAX_TAG_ITEM_LENGTH) {
        return refuse('too-large', at, `longer than ${MAX_TAG_ITEM_LENGTH} characters`);
      }
    }
  }
  return ok(tags as string[][]);
}

/** Returns the size of an event's JSON once it is signed; key, id and signature have a fixed length. */
export function signedEventBytes(draft: EventDraft): number {
  const placeholders = { id: '0'.repeat(64), pubkey: '0'.repeat(64), sig: '0'.repeat(128) };
  return utf8(JSON.stringify({ ...draft, ...placeholders })).length;
}

/** Returns the newest event of each slot, by default of each author; at equal times that with the lower id (NIP-01). */
export function newestOf(
  events: readonly SignedEvent[],
  slotOf: (event: SignedEvent) => string = ({ pubkey }) => pubkey,
): ReadonlyMap<string, SignedEvent> {
  const newest = new Map<string, SignedEvent>();
  for (const event of events) {
    const slot = slotOf(event);
    const known = newest.get(slot);
    const later = event.created_at - (known?.created_at ?? Number.NEGATIVE_INFINITY);
    if (later > 0 || (later === 0 && event.id < known!.id)) newest.set(slot, event);
  }
  return newest;
}
