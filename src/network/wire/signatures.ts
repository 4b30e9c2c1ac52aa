/**
 * Events made again from what an outcome says of them: what was said, who signed it, its dates and signature. Only events that can be
 * made again count, so the signature of a vote, join or leave covers everything it says, and needs no relay that still has it.
 */
import type { Signature } from '../../run/listed.ts';
import type { Commit, Join, Leave } from '../../run/vote.ts';
import { type EventDraft, eventId, type SignedEvent } from '../event.ts';
import { buildMember } from './members.ts';
import { buildVote } from './votes.ts';

/** The event that says this, of the id that follows; whether the signature holds is not judged. */
export function signedAgain(
  said: Commit | Join | Leave,
  key: string,
  signature: Signature,
): SignedEvent {
  const lifetime = { createdAt: signature.createdAt, expiresAt: signature.expiration };
  const { nonce, sig } = signature;
  const plain = said.type === 'vote' ? buildVote(said, lifetime) : buildMember(said, lifetime);
  const tags = nonce ? [...plain.tags, ['nonce', ...nonce]] : plain.tags;
  const draft: EventDraft = { ...plain, tags };
  return { id: eventId(key, draft), pubkey: key, sig, ...draft };
}
