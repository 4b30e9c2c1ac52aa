/** Whether a relay gave back what it was given. */
import { parseEvent, type SignedEvent } from '../network/event.ts';

/** Relays may add fields and reorder them; what counts must be what we signed. */
export function isSame(found: unknown, event: SignedEvent): boolean {
  const parsed = parseEvent(found);
  if (!parsed.ok) return false;
  const { id, sig, kind, pubkey, created_at, content, tags } = parsed.value;
  return (
    id === event.id &&
    sig === event.sig &&
    kind === event.kind &&
    pubkey === event.pubkey &&
    created_at === event.created_at &&
    content === event.content &&
    JSON.stringify(tags) === JSON.stringify(event.tags)
  );
}
