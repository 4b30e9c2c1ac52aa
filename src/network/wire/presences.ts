/** Presence events to heartbeats and back. */
import { presence } from '../../../kinds/presence.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import { accept, type ClaimContext, type Judged, judgeClaim, reject } from './judged.ts';

/** Relays may forget a presence after so many intervals: a run that stopped leaves nothing behind. */
const KEPT_INTERVALS = 10;
/** A larger cohort is left out: the event would be too large for relays. */
const MOST_NAMED = 512;

/** The heartbeat inside a verified event, or why it does not count. */
export function toPresence(
  event: SignedEvent,
  context: ClaimContext,
  features: FeatureSet = noFeatures,
): Judged<Heartbeat> {
  const parsed = presence.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const worker = event.pubkey;
  const rejected = judgeClaim(event, { run: said.run, worker }, context);
  if (rejected !== undefined) return rejected;
  const added = features.read('heartbeat', said.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  return accept({
    worker,
    ...withFeatures(added.value),
    round: said.round,
    intervalSeconds: said.interval,
    examples: said.examples,
    capabilities: said.capabilities ?? [],
    relays: said.relays ?? [],
    digest: said.base,
    cohort: said.cohort,
    leaving: said.status === 'leaving',
    ...(said.settings !== undefined && {
      terms: { settings: said.settings, asked: said.asked ?? [], shard: said.shard ?? '' },
    }),
    createdAt: event.created_at,
  });
}

/** An unsigned presence event saying what the heartbeat says, dated as the heartbeat is. */
export function buildPresence(run: string, heartbeat: Heartbeat): EventDraft {
  const { capabilities, relays, cohort = [], createdAt, intervalSeconds } = heartbeat;
  const { terms } = heartbeat;
  const isNamed = cohort.length > 0 && cohort.length <= MOST_NAMED;
  return presence.build(
    {
      run,
      ...withFeatures(heartbeat.features),
      slot: run,
      scope: [run],
      round: heartbeat.round,
      interval: intervalSeconds,
      examples: heartbeat.examples,
      capabilities: capabilities.length > 0 ? capabilities : undefined,
      relays: relays.length > 0 ? relays : undefined,
      base: heartbeat.digest,
      cohort: isNamed ? cohort : undefined,
      status: heartbeat.leaving ? 'leaving' : undefined,
      ...(terms && {
        settings: terms.settings,
        asked: terms.asked.length > 0 ? terms.asked : undefined,
        shard: terms.shard === '' ? undefined : terms.shard,
      }),
      expiration: createdAt + KEPT_INTERVALS * intervalSeconds,
    },
    createdAt,
  );
}
