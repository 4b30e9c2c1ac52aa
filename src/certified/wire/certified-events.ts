/**
 * The events of a certified run: filters to query them, reading an event into a protocol message, and building unsigned
 * events from messages.
 */
import { fault, MOST_EVENT_BYTES } from '../../../kinds/fault.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { memberKind } from '../../../kinds/member.ts';
import { presence } from '../../../kinds/presence.ts';
import { proposal } from '../../../kinds/proposal.ts';
import { vote } from '../../../kinds/vote.ts';
import type { Clock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { type BodyOf, noBodies } from '../../network/attachments/bodies.ts';
import type { Lifetime } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import { type EventCrypto, pureCrypto } from '../../network/event-crypto.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { type Judged, reject } from '../../network/wire/judged.ts';
import { type Manifest, readManifest } from '../../network/wire/manifests.ts';
import type { Rejection, RejectReason } from '../../run/contribution.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { outcomeBody } from '../../run/outcome.ts';
import { type FeatureSet, noFeatures } from '../../run/spec/features.ts';
import type {
  Commit,
  Message,
  Notice,
  Proposal,
  Signed,
  ViewChangeVote,
  Vote,
} from '../../run/vote.ts';
import { type FaultProof, toFaultProof } from './faults.ts';
import { buildMember, buildProposal, buildVote, toMember, toProposal, toVote } from './messages.ts';

/** A worker's commitment to a payload for a round. */
export interface Submission {
  readonly type: 'manifest';
  readonly manifest: Manifest;
}

/** A correctly signed event of a known kind whose content is unusable. */
export interface Unreadable {
  readonly type: 'unreadable';
  readonly reason: RejectReason;
}

/** Any signed message of a certified run. */
export type ProtocolMessage = Signed<
  Vote | Proposal | ViewChangeVote | Notice | Submission | FaultProof | Unreadable
>;

export const isCommit = (message: ProtocolMessage): message is Signed<Commit> =>
  message.type === 'vote' && message.step === 'commit';

/** Reports whether the round machine takes this message as input. */
export const isMessage = (
  message: ProtocolMessage,
): message is Extract<ProtocolMessage, { readonly type: 'vote' | 'proposal' | 'ballot' }> =>
  message.type === 'vote' || message.type === 'proposal' || message.type === 'ballot';

/** Kinds that decide rounds. Manifests are not among them: rounds can be certified without any one of them. */
export const DECIDING: readonly number[] = [vote, proposal, memberKind, fault].map(
  ({ kind }) => kind,
);
const KINDS: readonly number[] = [manifest.kind, ...DECIDING];
/** Default lifetime of events that decide a round, in seconds. */
const CONTROL_SECONDS = 90 * 86_400;

/** Returns the dates of a new event; the default lifetime is about three months. */
export function controlLifetime(clock: Clock, seconds = CONTROL_SECONDS): Lifetime {
  const createdAt = Math.floor(clock.now() / 1000);
  return { createdAt, expiresAt: createdAt + seconds };
}

export interface LeastLifetime {
  /** Time of the last certified outcome, in Unix seconds; earlier dates on events are not trusted. */
  readonly since: number;
  readonly seconds: number;
}

/**
 * Refuses an event that decides a round but expires too early: relays would delete it before anyone could archive the
 * run.
 */
export function refuseShortLived(
  { kind, pubkey: worker, created_at, tags }: SignedEvent,
  { since, seconds }: LeastLifetime,
): Rejection | undefined {
  if (!DECIDING.includes(kind)) return undefined;
  const expiration = Number(tags.find(([name]) => name === 'expiration')?.[1]);
  if (!(expiration < Math.max(since, created_at) + seconds)) return undefined;
  const detail = 'it expires before the run ends and can be archived';
  return { reason: 'malformed', detail, worker };
}

/** Returns a filter for manifests and for the events that decide one round. */
export const roundFilter = (run: Digest, round: number): Filter => ({
  kinds: [manifest.kind, vote.kind, proposal.kind, memberKind.kind],
  '#s': [`${run}/${round}`],
});

/** Maximum authors in one filter, as relays accept them. */
const MOST_AUTHORS = 64;

/**
 * Returns a filter for the manifests of these keys in one round; for everyone's if there are too many keys for a
 * filter.
 */
export const manifestsFilter = (run: Digest, round: number, by: readonly WorkerId[]): Filter => ({
  kinds: [manifest.kind],
  '#s': [`${run}/${round}`],
  ...(by.length <= MOST_AUTHORS ? { authors: by } : {}),
});

/** Returns a filter for joins, leaves, view-change votes and verdicts of the whole run. */
export const membersFilter = (run: Digest): Filter => ({ kinds: [memberKind.kind], '#s': [run] });

export const faultsFilter = (run: Digest): Filter => ({ kinds: [fault.kind], '#s': [run] });

/** Returns a filter for the proposals of an outcome in any round. */
export const outcomeFilter = (run: Digest, digest: Digest): Filter => ({
  kinds: [proposal.kind],
  '#s': [run],
  '#x': [digest],
});

/** Returns a filter for all events of a run by any author, except chunks. */
export const historyFilter = (run: Digest): Filter => ({ kinds: KINDS, '#s': [run] });

/** Returns filters for an observer: events signed since `since` (Unix seconds), and the latest heartbeats. */
export const onlookerFilters = (run: Digest, since: number): readonly Filter[] => [
  { ...historyFilter(run), since },
  { kinds: [presence.kind], '#s': [run] },
];

/** Returns filters for all events of a run by these keys, except chunks; several filters if there are many keys. */
export const historyBy = (run: Digest, keys: readonly WorkerId[]): readonly Filter[] =>
  byAuthors(run, KINDS, keys);

/** Returns filters for the events by these keys that decide rounds. */
export const decisionsBy = (run: Digest, keys: readonly WorkerId[]): readonly Filter[] =>
  byAuthors(run, DECIDING, keys);

/** Returns filters for events of these kinds and keys under a scope: a run id, or `<run>/<round>`. */
export const byAuthors = (
  scope: string,
  kinds: readonly number[],
  keys: readonly WorkerId[],
): readonly Filter[] =>
  Array.from({ length: Math.ceil(keys.length / MOST_AUTHORS) }, (_, i) => ({
    kinds,
    '#s': [scope],
    authors: keys.slice(i * MOST_AUTHORS, (i + 1) * MOST_AUTHORS),
  }));

/** Returns the unsigned event of a message. */
export function buildMessage(message: Message | Notice, lifetime: Lifetime): EventDraft {
  if (message.type === 'vote') return buildVote(message, lifetime);
  if (message.type === 'proposal') return buildProposal(message, lifetime);
  return buildMember(message, lifetime);
}

/** Returns the body of a message that may be sent in chunks; undefined for messages without one. */
export const bodyOfMessage = (message: Message | Notice): string | undefined =>
  message.type === 'proposal' ? outcomeBody(message.outcome) : undefined;

/**
 * Reads a verified event into a message, with the fields of the run's features. Undefined for other kinds and runs, and
 * while its body is missing. Does not depend on the reader's clock.
 */
export function toProtocolMessage(
  event: SignedEvent,
  run: Digest,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): ProtocolMessage | undefined {
  const judged = read(event, run, crypto, bodyOf, features);
  if (judged === undefined) return undefined;
  const signed = { id: event.id, key: event.pubkey };
  if (!judged.ok) return { ...signed, type: 'unreadable', reason: judged.rejection.reason };
  const message = judged.value;
  const of = message.type === 'manifest' ? message.manifest.run : message.run;
  return of === run ? message : undefined;
}

function read(
  event: SignedEvent,
  run: Digest,
  crypto: EventCrypto,
  bodyOf: BodyOf,
  features: FeatureSet,
): Judged<Exclude<ProtocolMessage, Signed<Unreadable>>> | undefined {
  if (!KINDS.includes(event.kind)) return undefined;
  // a fault proof must fit two of them
  if (utf8(JSON.stringify(event)).length > MOST_EVENT_BYTES) {
    return reject(event, 'too-large', `an event of over ${MOST_EVENT_BYTES} bytes`);
  }
  if (event.kind === vote.kind) return toVote(event, features);
  if (event.kind === proposal.kind) return toProposal(event, bodyOf, features);
  if (event.kind === memberKind.kind) return toMember(event, features);
  if (event.kind === fault.kind) return toFaultProof(event, crypto, bodyOf, features, run);
  const judged = readManifest(event, undefined, features);
  if (!judged.ok) return judged;
  const signed = { id: event.id, key: event.pubkey };
  return { ok: true, value: { ...signed, type: 'manifest', manifest: judged.value } };
}
