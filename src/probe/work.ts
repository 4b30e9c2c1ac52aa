/** Proof of work (NIP-13) for a few probe events: only as much as takes about a second. */
import type { EventDraft } from '../network/event.ts';
import { mineDraft } from '../network/proof-of-work.ts';
import { nativeSha256Text } from '../node/native-sha256.ts';

/** Bytes hashed on average before the work is found; more is not begun. */
const MOST_HASHED_BYTES = 2.5e8;

/** The draft with a nonce that gives its id so many leading zero bits; undefined when that would take too long. */
export function withWork(
  draft: EventDraft,
  publicKey: string,
  bits: number,
): EventDraft | undefined {
  if (bits === 0) return draft;
  if (2 ** bits * JSON.stringify(draft).length > MOST_HASHED_BYTES) return undefined;
  return mineDraft({ ...draft, pubkey: publicKey }, bits, nativeSha256Text);
}
