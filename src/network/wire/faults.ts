/** Fault proofs to the two statements inside them and back. Whether those contradict each other is not judged here. */
import type { Carried } from '../../../kinds/_body.ts';
import { fault } from '../../../kinds/fault.ts';
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import { type FeatureSet, noFeatures } from '../../run/features.ts';
import type { Digest } from '../../run/ids.ts';
import type { Signed, ViewChangeVote, Vote } from '../../run/vote.ts';
import { type BodyOf, carryBody, noBodies, openBody } from '../attachments/bodies.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import { type EventDraft, parseEvent, type SignedEvent, verifyEvent } from '../event.ts';
import { type EventCrypto, pureCrypto } from '../event-crypto.ts';
import { accept, type Judged, reject } from './judged.ts';
import { readManifest } from './manifests.ts';
import { type Proposed, toProposed } from './proposals.ts';
import { toMember, toVote } from './votes.ts';

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
export type Statement = Signed<Vote | Proposed | ViewChangeVote | Submitted>;

/** Two events that somebody shows side by side; both are verified. */
export interface Accusation {
  readonly type: 'accusation';
  readonly run: Digest;
  readonly statements: readonly [Statement, Statement];
}

/** The body of a proof: the same for whoever shows these two. */
export const pairBody = ([a, b]: readonly [SignedEvent, SignedEvent]): string =>
  pairText(a.id < b.id ? [a, b] : [b, a]);

function pairText(events: readonly SignedEvent[]): string {
  const plain = events.map(({ id, pubkey, created_at, kind, tags, content, sig }) => {
    return { id, pubkey, created_at, kind, tags, content, sig };
  });
  return JSON.stringify(plain);
}

const contentOf = (run: Digest, carried: Carried): string =>
  fault.declaration.content.write({ run, ...carried });

/** An unsigned proof of two signed events of one run. The chunks of a body that has no room in it are the caller's to send first. */
export function buildFault(
  run: Digest,
  events: readonly [SignedEvent, SignedEvent],
  lifetime: Lifetime,
): EventDraft {
  const body = carryBody(pairBody(events), (carried) => contentOf(run, carried));
  const expiration = expirationOf(lifetime);
  return fault.build({ run, ...body, scope: [run], expiration }, lifetime.createdAt);
}

/** The two statements inside a verified event, or why they are no proof; undefined while the chunks of its body are not here. */
export function toAccusation(
  event: SignedEvent,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): Judged<Signed<Accusation>> | undefined {
  const opened = openFault(event, crypto, bodyOf);
  if (!opened?.ok) return opened;
  const { run, events } = opened.value;
  const [first, second] = events.map((each) => toStatement(each, features));
  if (first === undefined || second === undefined) {
    return reject(event, 'malformed', 'not two genuine events, the one with the lower id first');
  }
  if (first.run !== run || second.run !== run) {
    return reject(event, 'other-run', 'an event of the proof is of another run');
  }
  const said = { type: 'accusation', run, statements: [first, second] } as const;
  return accept({ ...said, id: event.id, key: event.pubkey });
}

/** What is in the event of a proof, whatever it says: no events where they are not two genuine ones. */
export function openFault(
  event: SignedEvent,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
): Judged<{ readonly run: Digest; readonly events: readonly SignedEvent[] }> | undefined {
  const parsed = fault.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run, ...carried } = parsed.value;
  const opened = openBody(carried, (inside) => contentOf(run, inside), bodyOf);
  if (opened === undefined) return undefined;
  if (!opened.ok) return reject(event, 'malformed', opened.issue.message);
  return accept({ run, events: genuinePair(opened.value, crypto) });
}

/** Two events in the one spelling there is for them; nothing for any other text. */
function genuinePair(text: string, crypto: EventCrypto): readonly SignedEvent[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(json) || json.length !== 2) return [];
  const events = json.map(parseEvent).flatMap((parsed) => (parsed.ok ? [parsed.value] : []));
  const [a, b] = events;
  if (!a || !b || a.id >= b.id || pairText(events) !== text) return [];
  return events.every((event) => verifyEvent(event, crypto).ok) ? events : [];
}

/** What a verified event says in its place; undefined where it says nothing that could contradict anything. */
function toStatement(event: SignedEvent, features: FeatureSet): Statement | undefined {
  const cast = [toVote(event, features), toProposed(event)].find(({ ok }) => ok);
  if (cast?.ok) return cast.value;
  const member = toMember(event, features);
  if (member.ok && member.value.type === 'ballot') return member.value;
  const manifest = readManifest(event, undefined, features);
  if (!manifest.ok || manifest.value.parent === undefined) return undefined;
  const { run, round, parent } = manifest.value;
  const content = sha256Hex(utf8(event.content));
  return { type: 'manifest', id: event.id, key: event.pubkey, run, round, parent, content };
}
