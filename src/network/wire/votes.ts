/** Vote events to prepares and commits and back. */
import { vote } from '../../../kinds/vote.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/features.ts';
import type { Signed, Vote } from '../../run/vote.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { accept, type Judged, reject } from './judged.ts';
import { signatureOf } from './made-again.ts';

/** An unsigned vote. */
export function buildVote(cast: Vote, lifetime: Lifetime): EventDraft {
  const { run, round, attempt, parent, ctx, view, step, digest, justify } = cast;
  const { unlisted, features } = step === 'commit' ? cast : { unlisted: [] };
  return vote.build(
    {
      ...{ run, round, attempt, parent, ctx, view, step, digest, justify },
      unlisted: unlisted.length > 0 ? unlisted : undefined,
      ...withFeatures(features),
      ...{ scope: [run, `${run}/${round}`], x: digest, expiration: expirationOf(lifetime) },
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
