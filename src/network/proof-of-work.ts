/** Proof of work for events (NIP-13): leading zero bits of the id, and a `nonce` tag that commits to the target. */

import { anySignal, type Clock, within } from '../base/async.ts';
import { type EventDraft, eventId, type SignedEvent, type Signer } from './event.ts';
import { pureCrypto } from './event-crypto.ts';

/** An event that needs a nonce. Its id depends on the author, so the key must be known before signing. */
export interface WorkDraft extends EventDraft {
  readonly pubkey: string;
}

/**
 * Finds a `nonce` with which the id has this many leading zero bits. Rejects with `signal.reason`, or with a RangeError
 * beyond MAX_WORK_BITS or MAX_WORK_BYTES.
 */
export type Mine = (draft: WorkDraft, bits: number, signal: AbortSignal) => Promise<EventDraft>;

/** Maximum work: about ten seconds on one core. */
export const MAX_WORK_BITS = 20;
/** Maximum event size to work on, since each try hashes the whole event. */
export const MAX_WORK_BYTES = 2048;

export function leadingZeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}

/** Returns the draft with the first nonce, counted from 0, that gives the id these bits; blocks until then. */
export function mineDraft(
  { pubkey, kind, created_at, tags, content }: WorkDraft,
  bits: number,
  hash = pureCrypto.sha256Text,
): EventDraft {
  const others = tags.filter(([name]) => name !== 'nonce');
  for (let nonce = 0; ; nonce++) {
    const tag = ['nonce', String(nonce), String(bits)];
    const draft: EventDraft = { kind, created_at, tags: [...others, tag], content };
    if (leadingZeroBits(eventId(pubkey, draft, hash)) >= bits) return draft;
  }
}

/** Time for work per minute, over all events; beyond it, events are signed without work. */
const WORK_MS = 10_000;
const MINUTE_MS = 60_000;

export interface WorkingSignerOptions {
  readonly signer: Signer;
  readonly clock: Clock;
  readonly mine?: Mine | undefined;
  workFor(kind: number): number;
  readonly signal: AbortSignal;
}

/** Creates a signer that first does the work that relays require of small events, within a time budget. */
export function createWorkingSigner({
  signer,
  clock,
  mine,
  workFor,
  signal,
}: WorkingSignerOptions): (draft: EventDraft) => Promise<SignedEvent> {
  let minuteEndsMs = 0;
  let leftMs = 0;
  return async (draft) => {
    const bits = workFor(draft.kind);
    const isSmall = draft.content.length < MAX_WORK_BYTES / 2;
    if (bits === 0 || !mine || !isSmall) return signer.sign(draft);
    const begunMs = clock.now();
    if (begunMs >= minuteEndsMs) {
      minuteEndsMs = begunMs + MINUTE_MS;
      leftMs = WORK_MS;
    }
    if (leftMs <= 0) return signer.sign(draft);
    const over = new AbortController();
    const { signal: either, release } = anySignal(signal, over.signal);
    const work = mine({ ...draft, pubkey: signer.publicKey }, bits, either);
    try {
      return signer.sign((await within(work, leftMs, clock, signal)) ?? draft);
    } finally {
      over.abort(new Error('too much work'));
      work.catch(() => undefined).finally(release);
      leftMs -= clock.now() - begunMs;
    }
  };
}
