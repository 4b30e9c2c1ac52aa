/**
 * Proposal events to proposals and back; the outcome inside, or in chunks beside, is read, its digest compared, its validity not judged.
 */
import type { Carried } from '../../../kinds/_body.ts';
import { proposal } from '../../../kinds/proposal.ts';
import { type BodyOf, carryBody, noBodies, openBody } from '../../network/attachments/bodies.ts';
import { expirationOf, type Lifetime } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import { accept, type Judged, reject } from '../../network/wire/judged.ts';
import { bodyDigest, outcomeBody, parseOutcome } from '../../run/outcome.ts';
import { type FeatureSet, noFeatures } from '../../run/spec/features.ts';
import type { Proposal, Signed } from '../../run/vote.ts';

/** What is in the event of a proposal, wherever its outcome is. */
export type Proposed = Omit<Proposal, 'outcome'>;

/** An unsigned proposal. The chunks of an outcome that has no room in it are the caller's to send first. */
export function buildProposal(made: Proposal, lifetime: Lifetime): EventDraft {
  const { run, round, digest } = made;
  const body = carryBody(outcomeBody(made.outcome), (carried) => contentOf(made, carried));
  return proposal.build(
    {
      ...membersOf(made),
      ...body,
      scope: [run, `${run}/${round}`],
      x: digest,
      expiration: expirationOf(lifetime),
    },
    lifetime.createdAt,
  );
}

function membersOf({ prepares, ballots, ...made }: Proposed) {
  const { run, round, attempt, parent, ctx, view, digest, justify } = made;
  return {
    run,
    round,
    attempt,
    parent,
    ctx,
    view,
    digest,
    justify,
    prepares: prepares.length > 0 ? prepares : undefined,
    ballots: ballots.length > 0 ? ballots : undefined,
  };
}

const contentOf = (made: Proposed, carried: Carried): string =>
  proposal.declaration.content.write({ ...membersOf(made), ...carried });

/** What a verified event says of its proposal, whether or not the outcome is here. */
export function toProposed(event: SignedEvent): Judged<Signed<Proposed>> {
  const read = readProposed(event);
  return read.ok ? accept(read.value.said) : read;
}

function readProposed(
  event: SignedEvent,
): Judged<{ readonly said: Signed<Proposed>; readonly carried: Carried }> {
  const parsed = proposal.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run, round, attempt, parent, ctx, view, digest, justify } = parsed.value;
  const { prepares = [], ballots = [], body, root, bytes } = parsed.value;
  const said: Signed<Proposed> = {
    type: 'proposal',
    step: 'prepare',
    id: event.id,
    key: event.pubkey,
    run,
    round,
    attempt,
    parent,
    ctx,
    view,
    digest,
    justify,
    prepares,
    ballots,
  };
  return accept({ said, carried: { body, root, bytes } });
}

/** The proposal inside a verified event, or why it does not count; undefined while the chunks of its outcome are not here. */
export function toProposal(
  event: SignedEvent,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): Judged<Signed<Proposal>> | undefined {
  const judged = readProposed(event);
  if (!judged.ok) return judged;
  const { said, carried } = judged.value;
  const opened = openBody(carried, (inside) => contentOf(said, inside), bodyOf);
  if (opened === undefined) return undefined;
  if (!opened.ok) return reject(event, 'malformed', opened.issue.message);
  const { digest, run, round, parent } = said;
  if (bodyDigest(opened.value) !== digest) {
    return reject(event, 'malformed', `the body is not the outcome ${digest}`);
  }
  const read = parseOutcome(opened.value, features);
  if (!read.ok) return reject(event, 'malformed', `${read.issue.at}: ${read.issue.message}`);
  const outcome = read.value;
  if (outcome.run !== run || outcome.round !== round || outcome.parent !== parent) {
    return reject(event, 'malformed', 'the body is of another round than the proposal');
  }
  return accept({ ...said, outcome });
}
