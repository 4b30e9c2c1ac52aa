/**
 * Events that may still lack their signature or their author, as people keep them in files and as the Python reference lets
 * them pass. What is there must be right: an id is recomputed, a signature is verified.
 */
import { schnorr } from '@noble/curves/secp256k1.js';
import { fromHex, isHex32, toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { type EventDraft, eventId, parseDraft, verifyEvent } from '../../network/event.ts';
import { type EventCrypto, pureCrypto } from '../../network/event-crypto.ts';

/** An event that may lack its author, id or signature. */
export interface LooseEvent extends EventDraft {
  /** With an author there is always an id. */
  readonly pubkey?: string;
  readonly id?: string;
  /** Verified. */
  readonly sig?: string;
}

/** `signable`: the author is known, the signature is not there. */
export type SigningState = 'signed' | 'signable' | 'unsigned';

/** How far an event has come. */
export function signingState({ pubkey, sig }: LooseEvent): SigningState {
  if (pubkey === undefined) return 'unsigned';
  return sig === undefined ? 'signable' : 'signed';
}

/** What an event is known by: its id, or a hash of what it says when it has no author. */
export const fingerprint = (
  { id, kind, created_at, tags, content }: LooseEvent,
  { sha256Text }: EventCrypto = pureCrypto,
): string => id ?? toHex(sha256Text(JSON.stringify([kind, created_at, tags, content])));

/** A well-formed event with unknown members dropped, or why it is none. Never throws. */
export function readLooseEvent(json: unknown, crypto = pureCrypto): Result<LooseEvent> {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return refuse('malformed', 'event', 'an event is an object');
  }
  const members = json as Readonly<Record<string, unknown>>;
  if (members.sig !== undefined && members.id === undefined) {
    return refuse('malformed', 'id', 'a signed event has an id');
  }
  const draft = parseDraft(members);
  return draft.ok ? withAuthor(draft.value, members, crypto) : draft;
}

/** Who a draft is by, and their signature, both as text from anywhere. */
export interface Authorship {
  readonly pubkey?: unknown;
  readonly id?: unknown;
  readonly sig?: unknown;
}

/** A draft with its author and signature, when they belong to it. */
export function withAuthor(
  draft: EventDraft,
  { pubkey, id, sig }: Authorship,
  crypto: EventCrypto = pureCrypto,
): Result<LooseEvent> {
  if (pubkey === undefined) {
    return id === undefined && sig === undefined
      ? ok(draft)
      : refuse('malformed', 'pubkey', 'an id or a signature means nothing without a public key');
  }
  if (typeof pubkey !== 'string' || !isHex32(pubkey)) {
    return refuse('malformed', 'pubkey', 'not 64 lowercase hex digits');
  }
  if (sig === undefined && !isPublicKey(pubkey)) {
    return refuse('malformed', 'pubkey', 'no point of the curve has it, so nobody can sign for it');
  }
  const computed = eventId(pubkey, draft, crypto.sha256Text);
  if (id !== undefined && id !== computed) {
    return refuse('bad-id', 'id', `it is not the hash of the event, which is ${computed}`);
  }
  const signable = { ...draft, pubkey, id: computed };
  if (sig === undefined) return ok(signable);
  if (typeof sig !== 'string' || sig.length !== 128 || fromHex(sig) === undefined) {
    return refuse('malformed', 'sig', 'not 128 lowercase hex digits');
  }
  return verifyEvent({ ...signable, sig }, crypto);
}

/** Whether there is a point with this x. A signature that verifies proves it too. */
function isPublicKey(hex: string): boolean {
  try {
    schnorr.utils.lift_x(BigInt(`0x${hex}`)).assertValidity();
    return true;
  } catch {
    return false;
  }
}
