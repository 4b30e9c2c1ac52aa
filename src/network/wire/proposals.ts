/** Proposal events to proposals and back; the outcome inside is read, its digest compared, its validity not judged. */
import { proposal } from '../../../kinds/proposal.ts';
import { bodyDigest, outcomeBody, parseOutcome } from '../../run/outcome.ts';
import type { Proposal, Signed } from '../../run/vote.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { expirationOf, type Lifetime } from './chunks.ts';
import { accept, type Judged, reject } from './judged.ts';

/** An unsigned proposal. Throws a TypeError when its outcome is larger than an event carries. */
export function buildProposal(made: Proposal, lifetime: Lifetime): EventDraft {
  const { run, round, attempt, parent, ctx, view, digest, justify, prepares, ballots } = made;
  return proposal.build(
    {
      ...{ run, round, attempt, parent, ctx, view, digest, justify },
      prepares: prepares.length > 0 ? prepares : undefined,
      ballots: ballots.length > 0 ? ballots : undefined,
      body: outcomeBody(made.outcome),
      ...{ scope: [run, `${run}/${round}`], x: digest, expiration: expirationOf(lifetime) },
    },
    lifetime.createdAt,
  );
}

/** The proposal inside a verified event, or why it does not count. */
export function toProposal(event: SignedEvent): Judged<Signed<Proposal>> {
  const parsed = proposal.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run, round, attempt, parent, ctx, view, digest, justify, body } = parsed.value;
  const { prepares = [], ballots = [] } = parsed.value;
  if (bodyDigest(body) !== digest) {
    return reject(event, 'malformed', `the body is not the outcome ${digest}`);
  }
  const read = parseOutcome(body);
  if (!read.ok) return reject(event, 'malformed', `${read.issue.at}: ${read.issue.message}`);
  const outcome = read.value;
  if (outcome.run !== run || outcome.round !== round || outcome.parent !== parent) {
    return reject(event, 'malformed', 'the body is of another round than the proposal');
  }
  return accept({
    ...{ type: 'proposal', step: 'prepare', id: event.id, key: event.pubkey },
    ...{ run, round, attempt, parent, ctx, view, digest, justify, outcome, prepares, ballots },
  });
}
