/** Delegations of session keys: the event that an owner's signer signs, and the same event made again from what a join shows of it. */
import { DELEGATION_ALT, delegation as kind } from '../../../kinds/delegation.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { type EventDraft, eventId, type SignedEvent, verifyEvent } from '../../network/event.ts';
import type { Delegation } from '../../run/delegation.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';

/** What a session key takes part in. */
export interface Session {
  readonly run: Digest;
  /** The key that takes part. */
  readonly session: WorkerId;
}

/** What the owner of a name signs: this session key may take part in this run up to this round. */
export const draftDelegation = (of: Session, until: number, createdAt: number): EventDraft =>
  kind.build({ ...of, until, alt: DELEGATION_ALT }, createdAt);

/** The event that a join shows; whether its signature holds is not judged. */
export function delegatedAgain(of: Session, { key, until, createdAt, sig }: Delegation) {
  const draft = draftDelegation(of, until, createdAt);
  return { id: eventId(key, draft), pubkey: key, sig, ...draft } satisfies SignedEvent;
}

/** What a join shows of an event that a signer returned: it must be of this session key and run, signed, and without additions. */
export function readDelegation(event: SignedEvent, of: Session): Result<Delegation> {
  const verified = verifyEvent(event);
  if (!verified.ok) return verified;
  const parsed = kind.parse(event);
  if (!parsed.ok) return refuse('no-delegation', parsed.issue.at, parsed.issue.message);
  const { run, session, until } = parsed.value;
  if (run !== of.run || session !== of.session) {
    return refuse('other-session', 'content', 'it is about another run or another session key');
  }
  const read: Delegation = {
    key: event.pubkey,
    until,
    createdAt: event.created_at,
    sig: event.sig,
  };
  return delegatedAgain(of, read).id === event.id
    ? ok(read)
    : refuse('changed', 'tags', 'the signer added to it or wrote it anew');
}
