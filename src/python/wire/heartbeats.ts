/** Heartbeat events to beats and back. */
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import { accept, type Judged, judgeClaim, reject } from '../../network/wire/judged.ts';
import type { Beat } from '../../run/beat.ts';

export interface HeartbeatContext {
  readonly run: string;
  readonly nowSeconds: number;
  /** Whether workers may go by a name that is not their key. */
  readonly anyKey?: boolean | undefined;
}

/** The beat inside a verified event, or why it does not count. */
export function toBeat(event: SignedEvent, context: HeartbeatContext): Judged<Beat> {
  const parsed = heartbeat.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const rejected = judgeClaim(event, said, context);
  if (rejected !== undefined) return rejected;
  return accept({
    worker: said.worker,
    round: said.round,
    intervalSeconds: said.interval,
    examples: said.examples,
    capabilities: said.capabilities ?? [],
    relays: said.relays ?? [],
    digest: said.model,
    cohort: said.cohort,
    leaving: said.leaving ?? false,
    createdAt: event.created_at,
  });
}

/** An unsigned heartbeat event saying what the beat says, dated as the beat is. */
export function buildHeartbeat(run: string, beat: Beat): EventDraft {
  const { capabilities, relays } = beat;
  return heartbeat.build(
    {
      run,
      worker: beat.worker,
      round: beat.round,
      interval: beat.intervalSeconds,
      examples: beat.examples,
      capabilities: capabilities.length > 0 ? capabilities : undefined,
      relays: relays.length > 0 ? relays : undefined,
      model: beat.digest,
      cohort: beat.cohort,
      leaving: beat.leaving ? true : undefined,
      scope: true,
    },
    beat.createdAt,
  );
}
