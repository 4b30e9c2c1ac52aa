/** Proof of work for events (NIP-13): leading zero bits of the id, and a `nonce` tag that commits to how many were aimed at. */
import { type EventDraft, eventId } from './event.ts';
import { pureCrypto } from './event-crypto.ts';

/** A draft and the key that will sign it. */
export interface WorkDraft extends EventDraft {
  readonly pubkey: string;
}

/**
 * Finds a `nonce` with which the id has that many bits, and returns the draft to sign; `src/node/proof-of-work.ts`
 * does it in a thread. Rejects with `signal.reason`, or with a `RangeError` beyond the two limits below.
 */
export type Mine = (draft: WorkDraft, bits: number, signal: AbortSignal) => Promise<EventDraft>;

/** No more is ever done: about ten seconds of one core. */
export const MAX_WORK_BITS = 20;
/** Every try hashes the whole event, so larger ones are not worked on. */
export const MAX_WORK_BYTES = 2048;

/** Leading zero bits of a hex id. */
export function leadingZeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}

/** The draft with the first nonce, counted from 0, that gives its id the bits; blocks until it is found. */
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
