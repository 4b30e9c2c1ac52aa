/** Proof of work (NIP-13) for a few probe events: only as much as takes about a second. */
import { type EventDraft, eventId } from '../../network/event.ts';
import { nativeSha256Text } from '../../node/native-sha256.ts';

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
  for (let nonce = 0; ; nonce++) {
    const tags = [...draft.tags, ['nonce', String(nonce), String(bits)]];
    const worked = { ...draft, tags };
    if (zeroBits(eventId(publicKey, worked, nativeSha256Text)) >= bits) return worked;
  }
}

/** Leading zero bits of a hex id. */
function zeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}
