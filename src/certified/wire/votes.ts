/**
 * Votes, view-change votes, joins, leaves and verdicts: messages to events and back, and events made again from what an outcome says of them: what was
 * said, who signed it, its dates and signature. Only events that can be made again count, so the signature of a vote, join or leave covers
 * everything it says, and needs no relay that still has it.
 */
import { memberKind } from '../../../kinds/member.ts';
import { vote } from '../../../kinds/vote.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import { type EventDraft, eventId, type SignedEvent } from '../../network/event.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import { readNonce, type Signature } from '../../run/listed.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import type {
  CheckVerdict,
  Commit,
  Join,
  Leave,
  Notice,
  PreparedClaim,
  Signed,
  ViewChangeVote,
  Vote,
} from '../../run/vote.ts';

/** An unsigned join, leave, verdict or view-change vote. */
export function buildMember(said: Notice | ViewChangeVote, lifetime: Lifetime): EventDraft {
  const { run } = said;
  const common = { run, scope: [run], expiration: expirationOf(lifetime) };
  if (said.type === 'leave') {
    return memberKind.build({ ...common, type: 'leave', last: said.last }, lifetime.createdAt);
  }
  if (said.type === 'join') {
    const { after, tip, evidence, features } = said;
    const asked = evidence === '' ? undefined : evidence;
    return memberKind.build(
      { ...common, type: 'join', after, tip, evidence: asked, ...withFeatures(features) },
      lifetime.createdAt,
    );
  }
  if (said.type === 'verdict') {
    const { checked, accused, manifest, reason } = said;
    const more = { checked, accused, manifest, reason };
    return memberKind.build({ ...common, type: 'verdict', ...more }, lifetime.createdAt);
  }
  const { round, attempt, parent, prepared } = said;
  return memberKind.build(
    {
      ...common,
      type: 'ballot',
      round,
      attempt,
      parent,
      scope: [run, `${run}/${round}`],
      ...(prepared && {
        preparedAttempt: prepared.attempt,
        preparedView: prepared.view,
        preparedDigest: prepared.digest,
        preparedProposal: prepared.proposal,
        prepares: prepared.prepares,
      }),
    },
    lifetime.createdAt,
  );
}

/** What a member says inside a verified event, or why it does not count. */
export function toMember(
  event: SignedEvent,
  features: FeatureSet = noFeatures,
): Judged<Signed<Notice | ViewChangeVote>> {
  const parsed = memberKind.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const { run, expiration } = said;
  const signed = { id: event.id, key: event.pubkey };
  // which members are there with which type is a rule of the kind
  if (said.type === 'leave')
    return keep(event, { type: 'leave', run, last: said.last! }, expiration);
  if (said.type === 'join') {
    const { after, tip, evidence = '' } = said;
    const added = features.read('join', said.features);
    if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
    const more = { after: after!, tip: tip!, evidence, ...withFeatures(added.value) };
    return keep(event, { type: 'join', run, ...more }, expiration);
  }
  if (said.type === 'verdict') {
    if (!features.names.includes('jury')) return reject(event, 'malformed', 'a run without a jury');
    const { checked, accused, manifest, reason } = said;
    const verdict: CheckVerdict = {
      type: 'verdict',
      run,
      checked: checked!,
      accused: accused!,
      manifest: manifest!,
      reason: reason!,
    };
    return accept({ ...signed, ...verdict });
  }
  const { round, attempt, parent } = said;
  return accept({
    ...signed,
    run,
    type: 'ballot',
    round: round!,
    attempt: attempt!,
    parent: parent!,
    prepared: preparedOf(said),
  });
}

/** A join or leave with its signature, if the event can be made again from both. */
function keep<T extends Join | Leave>(
  event: SignedEvent,
  said: T,
  expiration: number,
): Judged<Signed<T>> {
  const build = (lifetime: Lifetime) => buildMember(said, lifetime);
  const signature = signatureOf(event, expiration, build);
  if (signature === undefined) return reject(event, 'malformed', `tags that no ${said.type} has`);
  return accept({ ...said, id: event.id, key: event.pubkey, signature });
}

function preparedOf(said: {
  readonly preparedAttempt?: number | undefined;
  readonly preparedView?: number | undefined;
  readonly preparedDigest?: string | undefined;
  readonly preparedProposal?: string | undefined;
  readonly prepares?: readonly string[] | undefined;
}): PreparedClaim | null {
  const { preparedAttempt: attempt, preparedView: view, preparedDigest: digest } = said;
  const { preparedProposal: proposal, prepares } = said;
  if (attempt === undefined || view === undefined || digest === undefined) return null;
  if (proposal === undefined || prepares === undefined) return null;
  return { attempt, view, digest, proposal, prepares };
}

/** An unsigned vote. */
export function buildVote(cast: Vote, lifetime: Lifetime): EventDraft {
  const { run, round, attempt, parent, ctx, view, step, digest, justify } = cast;
  const { unlisted, features } = step === 'commit' ? cast : { unlisted: [] };
  return vote.build(
    {
      run,
      round,
      attempt,
      parent,
      ctx,
      view,
      step,
      digest,
      justify,
      unlisted: unlisted.length > 0 ? unlisted : undefined,
      ...withFeatures(features),
      scope: [run, `${run}/${round}`],
      x: digest,
      expiration: expirationOf(lifetime),
    },
    lifetime.createdAt,
  );
}

/** The vote inside a verified event, or why it does not count. */
export function toVote(
  event: SignedEvent,
  features: FeatureSet = noFeatures,
): Judged<Signed<Vote>> {
  const parsed = vote.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run, round, attempt, parent, ctx, view, step, digest, justify } = parsed.value;
  const { unlisted = [], expiration } = parsed.value;
  const said = { run, round, attempt, parent, ctx, view, digest, justify };
  const signed = { id: event.id, key: event.pubkey };
  if (step === 'prepare') return accept({ ...signed, ...said, type: 'vote', step: 'prepare' });
  const added = features.read('vote', parsed.value.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  const more = { unlisted, ...withFeatures(added.value) };
  const commit: Vote = { type: 'vote', step: 'commit', ...said, ...more };
  const signature = signatureOf(event, expiration, (lifetime) => buildVote(commit, lifetime));
  if (signature === undefined) return reject(event, 'malformed', 'tags that no vote has');
  return accept({ ...signed, ...commit, signature });
}

/** What was signed beside what is said; undefined where the event has other tags, an order of its own, or dates that cannot be. */
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
