/** Fault proofs to the two statements inside them and back. Whether those contradict each other is not judged here. */
import { fault } from '../../../kinds/fault.ts';
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { Digest } from '../../run/ids.ts';
import type { Ballot, Proposal, Signed, Vote } from '../../run/vote.ts';
import { type EventDraft, parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import { type EventCrypto, pureCrypto } from '../event-crypto.ts';
import { expirationOf, type Lifetime } from './chunks.ts';
import { accept, type Judged, reject } from './judged.ts';
import { readManifest } from './manifests.ts';
import { toMember } from './members.ts';
import { toProposal } from './proposals.ts';
import { toVote } from './votes.ts';

/** A manifest, as far as faults are concerned. */
export interface Submitted {
  readonly type: 'manifest';
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** SHA-256 of the content of its event. */
  readonly content: Digest;
}

/** What a key may say once in one place. */
export type Statement = Signed<Vote | Proposal | Ballot | Submitted>;

/** Two events that somebody shows side by side; both are verified. */
export interface Accusation {
  readonly type: 'accusation';
  readonly run: Digest;
  readonly statements: readonly [Statement, Statement];
}

/** An unsigned proof of two signed events of one run. */
export function buildFault(
  run: Digest,
  [a, b]: readonly [SignedEvent, SignedEvent],
  lifetime: Lifetime,
): EventDraft {
  const [first, second] = (a.id < b.id ? [a, b] : [b, a]).map((event) => JSON.stringify(event));
  const expiration = expirationOf(lifetime);
  return fault.build(
    { run, scope: [run], expiration, first: first!, second: second! },
    lifetime.createdAt,
  );
}

/** The two statements inside a verified event, or why they are no proof. */
export function toAccusation(
  event: SignedEvent,
  crypto: EventCrypto = pureCrypto,
): Judged<Signed<Accusation>> {
  const parsed = fault.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run } = parsed.value;
  const [first, second] = [parsed.value.first, parsed.value.second].map((text) =>
    innerStatement(text, crypto),
  );
  if (first === undefined || second === undefined || first.id >= second.id) {
    return reject(event, 'malformed', 'not two genuine events, the one with the lower id first');
  }
  if (first.run !== run || second.run !== run) {
    return reject(event, 'other-run', 'an event of the proof is of another run');
  }
  const said = { type: 'accusation', run, statements: [first, second] } as const;
  return accept({ ...said, id: event.id, key: event.pubkey });
}

function innerStatement(text: string, crypto: EventCrypto): Statement | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = parseEvent(json);
  if (!parsed.ok || !verifyEvent(parsed.value, crypto).ok) return undefined;
  return toStatement(parsed.value);
}

/** What a verified event says in its place; undefined where it says nothing that could contradict anything. */
function toStatement(event: SignedEvent): Statement | undefined {
  const cast = [toVote, toProposal].map((read) => read(event)).find(({ ok }) => ok);
  if (cast?.ok) return cast.value;
  const member = toMember(event);
  if (member.ok && member.value.type === 'ballot') return member.value;
  const manifest = readManifest(event);
  if (!manifest.ok || manifest.value.parent === undefined) return undefined;
  const { run, round, parent } = manifest.value;
  const content = sha256Hex(utf8(event.content));
  return { type: 'manifest', id: event.id, key: event.pubkey, run, round, parent, content };
}
