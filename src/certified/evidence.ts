/**
 * What stands behind an outcome: everything it names by id, verified and read. An outcome is judged by this and by the certified
 * past alone, so everybody who has the same bytes finds the same.
 */
import { bytes32 } from '../base/tagged-hash.ts';
import { type SignedEvent, verifySignature } from '../network/event.ts';
import type { EventCrypto, Sha256 } from '../network/event-crypto.ts';
import type { Submission, Unreadable } from '../network/wire/certified-events.ts';
import type { Manifest } from '../network/wire/manifests.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import type { Commit, Join, Leave, Proposal, Signed, ViewChangeVote, Vote } from '../run/vote.ts';

/** Two events of one key in one place, both checked: it broke the rules. The key is the author of those, not of the proof. */
export interface FaultProof {
  readonly type: 'fault';
  readonly run: Digest;
  readonly kind: 'equivocation' | 'broken-lock';
  readonly culprit: WorkerId;
  readonly events: readonly [EventId, EventId];
}

/** What an event of a certified run says. */
export type ProtocolMessage = Signed<
  Vote | Proposal | ViewChangeVote | Join | Leave | Submission | FaultProof | Unreadable
>;

export const isCommit = (noun: ProtocolMessage): noun is Signed<Commit> =>
  noun.type === 'vote' && noun.step === 'commit';

/** What the round machine takes. */
export const isMessage = (
  noun: ProtocolMessage,
): noun is Extract<ProtocolMessage, { readonly type: 'vote' | 'proposal' | 'ballot' }> =>
  noun.type === 'vote' || noun.type === 'proposal' || noun.type === 'ballot';

/** Findings about signatures that are kept. */
const MOST_JUDGED = 65_536;

export interface Evidence {
  noun(id: EventId): ProtocolMessage | undefined;
  /** The whole payload a manifest commits to, checked against its hash. */
  payload(manifest: Manifest): Uint8Array | undefined;
  /** Proposals of an outcome: they have its body, and name the ballots of their committee. */
  proposals(digest: Digest): readonly Signed<Proposal>[];
  /** Whether the signature of an event that was made again holds. */
  isSigned(event: SignedEvent): boolean;
  /** The table of stakes with this id. */
  stakes(snapshot: Digest): ReadonlyMap<WorkerId, bigint> | undefined;
  /** The value that comes after an outcome of this time, where the run has a beacon. */
  beacon(time: number): Digest | undefined;
}

/** Judges signatures, each once. Of an event that is here its own was checked already. */
export function signatureJudge(
  noun: Evidence['noun'],
  { schnorr }: EventCrypto,
): Evidence['isSigned'] {
  const judged = new Map<string, boolean>();
  return ({ id, pubkey, sig }) => {
    if (noun(id)?.signature?.sig === sig) return true;
    const name = id + sig;
    const known = judged.get(name);
    if (known !== undefined) return known;
    if (judged.size >= MOST_JUDGED) judged.clear();
    const isGood = verifySignature(sig, bytes32(id), pubkey, schnorr);
    judged.set(name, isGood);
    return isGood;
  };
}

/** Something that is not at hand, so that a judgment has to wait. */
export interface Missing {
  readonly what: 'event' | 'payload' | 'proposal' | 'snapshot' | 'beacon';
  readonly id: string;
}

/** What a judgment found: a value, why not, or what it lacks to say either. */
export type Verdict<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly invalid: Invalid }
  | { readonly ok: false; readonly missing: readonly Missing[] };

/** Why an outcome cannot follow its past. */
export interface Invalid {
  /** A stable name. */
  readonly code: string;
  /** The member of the outcome. */
  readonly at: string;
  readonly message: string;
}

export const found = <T>(value: T): { readonly ok: true; readonly value: T } => ({
  ok: true,
  value,
});

export const invalid = (
  code: string,
  at: string,
  message: string,
): { readonly ok: false; readonly invalid: Invalid } => ({
  ok: false,
  invalid: { code, at, message },
});

export const lacking = (
  ...missing: readonly Missing[]
): { readonly ok: false; readonly missing: readonly Missing[] } => ({ ok: false, missing });

export interface Hashing {
  /** Default pure JavaScript. */
  readonly sha256?: Sha256 | undefined;
  /** Default pure JavaScript. */
  readonly crypto?: EventCrypto | undefined;
}
