/** Member events to joins, leaves and view-change votes and back. */
import { memberKind } from '../../../kinds/member.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/features.ts';
import type { Join, Leave, PreparedClaim, Signed, ViewChangeVote } from '../../run/vote.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { accept, type Judged, reject } from './judged.ts';
import { signatureOf } from './made-again.ts';

/** An unsigned join, leave or view-change vote. */
export function buildMember(said: Join | Leave | ViewChangeVote, lifetime: Lifetime): EventDraft {
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
  const { round, attempt, parent, prepared } = said;
  return memberKind.build(
    {
      ...common,
      ...{ type: 'ballot', round, attempt, parent, scope: [run, `${run}/${round}`] },
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
): Judged<Signed<Join | Leave | ViewChangeVote>> {
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
  const { round, attempt, parent } = said;
  return accept({
    ...{ ...signed, run, type: 'ballot', round: round!, attempt: attempt!, parent: parent! },
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
