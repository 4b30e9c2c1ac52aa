/**
 * Fault proofs: builds and reads proofs of two contradicting statements of one key, or of failed-check verdicts by
 * several members. Whether the verdicts suffice is decided in decisions/roster-change.ts.
 */
import type { Carried } from '../../../kinds/_shared.ts';
import { fault } from '../../../kinds/fault.ts';
import { memberKind } from '../../../kinds/member.ts';
import { utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { sha256Hex } from '../../base/hash.ts';
import { judgeFault, type Statement } from '../../consensus/round/receive.ts';
import type { Fault } from '../../consensus/round/round-state.ts';
import { type BodyOf, carryBody, noBodies, openBody } from '../../network/attachments/bodies.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import {
  type EventDraft,
  eventId,
  inOrder,
  parseEvent,
  type SignedEvent,
  verifyEvent,
} from '../../network/event.ts';
import { type EventCrypto, pureCrypto } from '../../network/event-crypto.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import { readManifest } from '../../network/wire/manifests.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type FeatureSet, noFeatures } from '../../run/spec/features.ts';
import type { CheckVerdict, Signed } from '../../run/vote.ts';
import { toMember, toProposed, toVote } from './messages.ts';

export type VerdictWithEvent = Signed<CheckVerdict> & { readonly event: SignedEvent };

interface Proof {
  readonly type: 'fault';
  readonly run: Digest;
  readonly culprit: WorkerId;
}

/** Two verified events of one key, the culprit, that no honest member would both sign. */
export interface ContradictionProof extends Proof {
  readonly kind: Fault['kind'];
  readonly events: Fault['events'];
}

/**
 * Verdicts on one contribution of the culprit, each by a different key. Ids are checked here; signatures are checked
 * when an outcome lists the proof.
 */
export interface CheckProof extends Proof {
  readonly kind: 'failed-check';
  readonly verdicts: readonly VerdictWithEvent[];
}

/** A proof that ejects a key from a run. */
export type FaultProof = ContradictionProof | CheckProof;

/** Maximum verdicts in one proof: the seats of the largest committee. */
const MOST_VERDICTS = 1024;

/** Returns the body of a proof; it does not depend on who publishes it. */
export const proofBody = (events: readonly SignedEvent[]): string =>
  pairText([...events].sort((a, b) => (a.id < b.id ? -1 : 1)));

const pairText = (events: readonly SignedEvent[]): string => JSON.stringify(events.map(inOrder));

const contentOf = (run: Digest, carried: Carried): string =>
  fault.declaration.content.write({ run, ...carried });

/** Builds an unsigned proof. If the body is too large for the event, the caller sends its chunks first. */
export function buildFault(
  run: Digest,
  events: readonly SignedEvent[],
  lifetime: Lifetime,
): EventDraft {
  const body = carryBody(proofBody(events), (carried) => contentOf(run, carried));
  const expiration = expirationOf(lifetime);
  return fault.build({ run, ...body, scope: [run], expiration }, lifetime.createdAt);
}

/**
 * Reads the proof in a verified event, or returns why it is invalid. Undefined for runs other than `only`, and while
 * its body is missing.
 */
export function toFaultProof(
  event: SignedEvent,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
  only?: Digest,
): Judged<Signed<FaultProof>> | undefined {
  const opened = openFault(event, crypto, bodyOf);
  if (!opened?.ok) return opened;
  const { run, events } = opened.value;
  const proof = { type: 'fault', id: event.id, key: event.pubkey, run } as const;
  const verdicts = verdictsIn(events, features);
  if (verdicts) {
    if (!areOnOneContribution(verdicts, run)) {
      return reject(
        event,
        'malformed',
        'the verdicts are not by different keys on one contribution',
      );
    }
    return accept({ ...proof, kind: 'failed-check', culprit: verdicts[0]!.accused, verdicts });
  }
  const [first, second] = events.map((each) => toStatement(each, features));
  if (first === undefined || second === undefined) {
    return reject(event, 'malformed', 'not two genuine events, the one with the lower id first');
  }
  if (first.run !== run || second.run !== run) {
    return reject(event, 'other-run', 'an event of the proof is of another run');
  }
  if (only !== undefined && run !== only) return undefined;
  const fault = judgeFault(first, second);
  if (fault === undefined)
    return reject(event, 'malformed', 'its events do not contradict each other');
  return accept({ ...proof, kind: fault.kind, events: fault.events, culprit: fault.key });
}

function verdictsIn(
  events: readonly SignedEvent[],
  features: FeatureSet,
): readonly VerdictWithEvent[] | undefined {
  if (events[0]?.kind !== memberKind.kind) return undefined;
  const verdicts = events.flatMap((event) => {
    const member = toMember(event, features);
    return member.ok && member.value.type === 'verdict' ? [{ ...member.value, event }] : [];
  });
  return verdicts.length === events.length ? verdicts : undefined;
}

/** Reports whether the verdicts are on one contribution, each by a different key, none by its author. */
function areOnOneContribution(verdicts: readonly VerdictWithEvent[], run: Digest): boolean {
  const [{ accused, checked, manifest }] = verdicts as readonly [VerdictWithEvent];
  const isOfIt = (verdict: VerdictWithEvent) =>
    verdict.run === run &&
    verdict.accused === accused &&
    verdict.checked === checked &&
    verdict.manifest === manifest &&
    verdict.key !== accused;
  return verdicts.every(isOfIt) && new Set(verdicts.map(({ key }) => key)).size === verdicts.length;
}

/** Returns the run and events in a proof event without judging them; no events if they are not genuine. */
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
  return accept({ run, events: genuine(opened.value, crypto) });
}

/**
 * Parses the events of a proof body in canonical form, sorted by id; empty for anything else. Checks signatures only if
 * there are two events.
 */
function genuine(text: string, crypto: EventCrypto): readonly SignedEvent[] {
  const json = jsonIn(text);
  if (!Array.isArray(json) || json.length < 2 || json.length > MOST_VERDICTS) return [];
  const events = json.map(parseEvent).flatMap((parsed) => (parsed.ok ? [parsed.value] : []));
  const isRising = events.every(({ id }, i) => i === 0 || events[i - 1]!.id < id);
  if (events.length < json.length || !isRising || pairText(events) !== text) return [];
  const isGenuine = (event: SignedEvent) =>
    events.length === 2
      ? verifyEvent(event, crypto).ok
      : event.kind === memberKind.kind && hasValidId(event);
  return events.every(isGenuine) ? events : [];
}

const hasValidId = ({ id, pubkey, sig: _, ...draft }: SignedEvent): boolean =>
  eventId(pubkey, draft) === id;

/** Returns the statement of a verified event; undefined if it cannot contradict another. */
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
