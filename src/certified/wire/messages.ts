/**
 * Converts messages to events and back: votes, proposals, view-change votes, joins, leaves, verdicts, delegations.
 * Events that an outcome lists are rebuilt from its fields and signatures, so no relay has to keep them. Reading a
 * proposal checks the digest of its outcome, not its validity.
 */
import type { Carried } from '../../../kinds/_shared.ts';
import { DELEGATION_ALT, delegation as delegationKind } from '../../../kinds/delegation.ts';
import { memberKind } from '../../../kinds/member.ts';
import { proposal } from '../../../kinds/proposal.ts';
import { vote } from '../../../kinds/vote.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { type BodyOf, carryBody, noBodies, openBody } from '../../network/attachments/bodies.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import { type EventDraft, eventId, type SignedEvent, verifyEvent } from '../../network/event.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { readNonce, type Signature } from '../../run/listed.ts';
import { bodyDigest, outcomeBody, parseOutcome } from '../../run/outcome.ts';
import type { Delegation } from '../../run/spec/feature-fields.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import {
  type CheckVerdict,
  type Commit,
  castOf,
  type Join,
  type Leave,
  type Notice,
  type PreparedClaim,
  type Proposal,
  type Signed,
  type ViewChangeVote,
  type Vote,
} from '../../run/vote.ts';

/** Returns the unsigned event of a join, a leave or a view-change vote. */
export function buildMember(message: Notice | ViewChangeVote, lifetime: Lifetime): EventDraft {
  const { run } = message;
  const build = (fields: Omit<Parameters<typeof memberKind.build>[0], 'scope' | 'expiration'>) => {
    const scope = fields.round === undefined ? [run] : [run, `${run}/${fields.round}`];
    const expiration = expirationOf(lifetime);
    return memberKind.build({ ...fields, scope, expiration }, lifetime.createdAt);
  };
  if (message.type === 'join') {
    const { evidence, ...join } = message;
    return build({ ...join, evidence: evidence === '' ? undefined : evidence });
  }
  if (message.type !== 'ballot') return build(message);
  const { prepared, ...ballot } = message;
  return build({
    ...ballot,
    ...(prepared && {
      preparedAttempt: prepared.attempt,
      preparedView: prepared.view,
      preparedDigest: prepared.digest,
      preparedProposal: prepared.proposal,
      prepares: prepared.prepares,
    }),
  });
}

/** Reads a member event, or returns why it does not count. */
export function toMember(
  event: SignedEvent,
  features: FeatureSet = noFeatures,
): Judged<Signed<Notice | ViewChangeVote>> {
  const parsed = memberKind.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const fields = parsed.value;
  const { run, expiration } = fields;
  const signed = { id: event.id, key: event.pubkey };
  // the kind's rules fix which fields each type has
  if (fields.type === 'leave')
    return withSignature(event, { type: 'leave', run, last: fields.last! }, expiration);
  if (fields.type === 'join') {
    const { after, tip, evidence = '' } = fields;
    const added = features.read('join', fields.features);
    if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
    const more = { after: after!, tip: tip!, evidence, ...withFeatures(added.value) };
    return withSignature(event, { type: 'join', run, ...more }, expiration);
  }
  if (fields.type === 'verdict') {
    if (!features.names.includes('jury')) return reject(event, 'malformed', 'the run has no jury');
    const { checked, accused, manifest, reason } = fields as CheckVerdict;
    return accept({ ...signed, type: 'verdict', run, checked, accused, manifest, reason });
  }
  const { round, attempt, parent } = fields as Omit<ViewChangeVote, 'prepared'>;
  const prepared = preparedOf(fields);
  return accept({ ...signed, type: 'ballot', run, round, attempt, parent, prepared });
}

/** Adds the signature to a join or leave if the event can be rebuilt from both. */
function withSignature<T extends Join | Leave>(
  event: SignedEvent,
  message: T,
  expiration: number,
): Judged<Signed<T>> {
  const build = (lifetime: Lifetime) => buildMember(message, lifetime);
  const signature = signatureOf(event, expiration, build);
  if (signature === undefined)
    return reject(event, 'malformed', `its tags are not those of a ${message.type}`);
  return accept({ ...message, id: event.id, key: event.pubkey, signature });
}

function preparedOf(claim: Partial<Parameters<typeof memberKind.build>[0]>): PreparedClaim | null {
  const { preparedAttempt: attempt, preparedView: view, preparedDigest: digest } = claim;
  const { preparedProposal: proposal, prepares } = claim;
  if (attempt === undefined || view === undefined || digest === undefined) return null;
  if (proposal === undefined || prepares === undefined) return null;
  return { attempt, view, digest, proposal, prepares };
}

/** Returns the unsigned event of a vote. */
export function buildVote(cast: Vote, lifetime: Lifetime): EventDraft {
  const { run, round, digest } = cast;
  return vote.build(
    {
      ...cast,
      scope: [run, `${run}/${round}`],
      x: digest,
      expiration: expirationOf(lifetime),
    },
    lifetime.createdAt,
  );
}

/** Reads a vote, or returns why it does not count. */
export function toVote(
  event: SignedEvent,
  features: FeatureSet = noFeatures,
): Judged<Signed<Vote>> {
  const parsed = vote.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { step, justify, unlisted = [], expiration } = parsed.value;
  const cast = { ...castOf(parsed.value), justify };
  const signed = { id: event.id, key: event.pubkey };
  if (step === 'prepare') return accept({ ...signed, ...cast, type: 'vote', step: 'prepare' });
  const added = features.read('vote', parsed.value.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  const more = { unlisted, ...withFeatures(added.value) };
  const commit: Vote = { type: 'vote', step: 'commit', ...cast, ...more };
  const signature = signatureOf(event, expiration, (lifetime) => buildVote(commit, lifetime));
  if (signature === undefined)
    return reject(event, 'malformed', 'its tags are not those of a vote');
  return accept({ ...signed, ...commit, signature });
}

/**
 * Returns the dates and signature of an event; undefined if its tags or dates differ from those that `build` writes.
 */
function signatureOf(
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

/** Rebuilds the event of a message from its signature, with the id that follows. Does not verify the signature. */
export function rebuildEvent(
  message: Commit | Join | Leave,
  key: string,
  signature: Signature,
): SignedEvent {
  const lifetime = { createdAt: signature.createdAt, expiresAt: signature.expiration };
  const { nonce, sig } = signature;
  const plain =
    message.type === 'vote' ? buildVote(message, lifetime) : buildMember(message, lifetime);
  const tags = nonce ? [...plain.tags, ['nonce', ...nonce]] : plain.tags;
  const draft: EventDraft = { ...plain, tags };
  return { id: eventId(key, draft), pubkey: key, sig, ...draft };
}

/** Fields in the event of a proposal; its outcome may be in chunks. */
export type Proposed = Omit<Proposal, 'outcome'>;

/** Builds an unsigned proposal. If the outcome is too large for the event, the caller sends its chunks first. */
export function buildProposal(made: Proposal, lifetime: Lifetime): EventDraft {
  const { run, round, digest } = made;
  const body = carryBody(outcomeBody(made.outcome), (carried) => contentOf(made, carried));
  return proposal.build(
    {
      ...made,
      ...body,
      scope: [run, `${run}/${round}`],
      x: digest,
      expiration: expirationOf(lifetime),
    },
    lifetime.createdAt,
  );
}

const contentOf = (made: Proposed, carried: Carried): string =>
  proposal.declaration.content.write({ ...made, ...carried });

/** Reads the fields of a proposal, whether or not its outcome is available. */
export function toProposed(event: SignedEvent): Judged<Signed<Proposed>> {
  const read = readProposed(event);
  return read.ok ? accept(read.value.proposed) : read;
}

function readProposed(
  event: SignedEvent,
): Judged<{ readonly proposed: Signed<Proposed>; readonly carried: Carried }> {
  const parsed = proposal.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { justify, prepares = [], ballots = [], body, root, bytes } = parsed.value;
  const signed = { id: event.id, key: event.pubkey, type: 'proposal', step: 'prepare' } as const;
  const proposed = { ...signed, ...castOf(parsed.value), justify, prepares, ballots };
  return accept({ proposed, carried: { body, root, bytes } });
}

/** Reads a proposal, or returns why it does not count; undefined while its outcome is missing. */
export function toProposal(
  event: SignedEvent,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): Judged<Signed<Proposal>> | undefined {
  const judged = readProposed(event);
  if (!judged.ok) return judged;
  const { proposed, carried } = judged.value;
  const opened = openBody(carried, (inside) => contentOf(proposed, inside), bodyOf);
  if (opened === undefined) return undefined;
  if (!opened.ok) return reject(event, 'malformed', opened.issue.message);
  const { digest, run, round, parent } = proposed;
  if (bodyDigest(opened.value) !== digest) {
    return reject(event, 'malformed', `the body is not the outcome ${digest}`);
  }
  const read = parseOutcome(opened.value, features);
  if (!read.ok) return reject(event, 'malformed', `${read.issue.at}: ${read.issue.message}`);
  const outcome = read.value;
  if (outcome.run !== run || outcome.round !== round || outcome.parent !== parent) {
    return reject(event, 'malformed', 'the body and the proposal are of different rounds');
  }
  return accept({ ...proposed, outcome });
}

export interface SessionOf {
  readonly run: Digest;
  readonly session: WorkerId;
}

/** Drafts the event by which a principal lets a session key take part in a run up to a round. */
export const draftDelegation = (of: SessionOf, until: number, createdAt: number): EventDraft =>
  delegationKind.build({ ...of, until, alt: DELEGATION_ALT }, createdAt);

/** Rebuilds the delegation event that a join carries. Does not verify the signature. */
export function rebuildDelegation(of: SessionOf, { key, until, createdAt, sig }: Delegation) {
  const draft = draftDelegation(of, until, createdAt);
  return { id: eventId(key, draft), pubkey: key, sig, ...draft } satisfies SignedEvent;
}

/**
 * Reads a delegation that a signer returned. Refuses one for another run or session key, an invalid signature, and
 * added tags.
 */
export function readDelegation(event: SignedEvent, of: SessionOf): Result<Delegation> {
  const verified = verifyEvent(event);
  if (!verified.ok) return verified;
  const parsed = delegationKind.parse(event);
  if (!parsed.ok) return refuse('no-delegation', parsed.issue.at, parsed.issue.message);
  const { run, session, until } = parsed.value;
  if (run !== of.run || session !== of.session) {
    return refuse('other-session', 'content', 'it is for another run or another session key');
  }
  const read: Delegation = {
    key: event.pubkey,
    until,
    createdAt: event.created_at,
    sig: event.sig,
  };
  return rebuildDelegation(of, read).id === event.id
    ? ok(read)
    : refuse('changed', 'tags', 'the signer changed it');
}
