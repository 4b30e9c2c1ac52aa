/** Vote events to prepares and commits and back. */
import { vote } from '../../../kinds/vote.ts';
import type { Signed, Vote } from '../../run/vote.ts';
import { expirationOf, type Lifetime } from '../attachments/chunk-events.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { accept, type Judged, reject } from './judged.ts';

/** An unsigned vote. */
export function buildVote(cast: Vote, lifetime: Lifetime): EventDraft {
  const { run, round, attempt, parent, ctx, view, step, digest, justify } = cast;
  const { unlisted, scores } = step === 'commit' ? cast : { unlisted: [], scores: [] };
  return vote.build(
    {
      ...{ run, round, attempt, parent, ctx, view, step, digest, justify },
      unlisted: unlisted.length > 0 ? unlisted : undefined,
      scores: scores.length > 0 ? scores : undefined,
      ...{ scope: [run, `${run}/${round}`], x: digest, expiration: expirationOf(lifetime) },
    },
    lifetime.createdAt,
  );
}

/** The vote inside a verified event, or why it does not count. */
export function toVote(event: SignedEvent): Judged<Signed<Vote>> {
  const parsed = vote.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const { run, round, attempt, parent, ctx, view, step, digest, justify } = parsed.value;
  const { unlisted = [], scores = [] } = parsed.value;
  const said = { run, round, attempt, parent, ctx, view, digest, justify };
  const signed = { type: 'vote', id: event.id, key: event.pubkey, ...said } as const;
  return step === 'commit'
    ? accept({ ...signed, step, unlisted, scores })
    : accept({ ...signed, step: 'prepare' });
}
