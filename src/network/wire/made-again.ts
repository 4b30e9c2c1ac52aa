/** Whether a verified event is the one that its kind writes for what it says: then it can be made again without it. */
import { readNonce, type Signature } from '../../run/listed.ts';
import type { Lifetime } from '../attachments/chunk-events.ts';
import type { EventDraft, SignedEvent } from '../event.ts';

/** What was signed beside what is said; undefined where the event has other tags, an order of its own, or dates that cannot be. */
export function signatureOf(
  event: SignedEvent,
  expiration: number,
  build: (lifetime: Lifetime) => EventDraft,
): Signature | undefined {
  const { created_at: createdAt, tags, sig } = event;
  if (createdAt < 1 || expiration <= createdAt) return undefined;
  const built = build({ createdAt, expiresAt: expiration }).tags;
  const [more, ...others] = tags.slice(built.length);
  const nonce = more?.[0] === 'nonce' ? readNonce(more.slice(1)) : undefined;
  if (others.length > 0 || (more !== undefined && nonce === undefined)) return undefined;
  if (JSON.stringify(tags.slice(0, built.length)) !== JSON.stringify(built)) return undefined;
  return { createdAt, expiration, sig, ...(nonce && { nonce }) };
}
