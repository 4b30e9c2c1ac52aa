/** Member events to joins, leaves and ballots and back. */
import { memberKind } from '../../../kinds/member.ts';
import type { Join, Leave, PreparedClaim, Signed, ViewChangeVote } from '../../run/vote.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { accept, type Judged, reject } from './judged.ts';

/** An unsigned join, leave or ballot. */
export function buildMember(said: Join | Leave | ViewChangeVote, lifetime: Lifetime): EventDraft {
  const { run } = said;
  const common = { run, scope: [run], expiration: expirationOf(lifetime) };
  if (said.type === 'leave') {
    return memberKind.build({ ...common, type: 'leave', last: said.last }, lifetime.createdAt);
  }
  if (said.type === 'join') {
    const { after, tip, evidence } = said;
    const asked = evidence === '' ? undefined : evidence;
    return memberKind.build(
      { ...common, type: 'join', after, tip, evidence: asked },
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
export function toMember(event: SignedEvent): Judged<Signed<Join | Leave | ViewChangeVote>> {
  const parsed = memberKind.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const { run } = said;
  const signed = { id: event.id, key: event.pubkey, run };
  // which members are there with which type is a rule of the kind
  if (said.type === 'leave') return accept({ ...signed, type: 'leave', last: said.last! });
  if (said.type === 'join') {
    const { after, tip, evidence = '' } = said;
    return accept({ ...signed, type: 'join', after: after!, tip: tip!, evidence });
  }
  const { round, attempt, parent } = said;
  return accept({
    ...{ ...signed, type: 'ballot', round: round!, attempt: attempt!, parent: parent! },
    prepared: preparedOf(said),
  });
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
