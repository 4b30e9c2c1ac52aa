/** Heartbeat events to heartbeats and back. */
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import {
  accept,
  type ClaimContext,
  type Judged,
  judgeClaim,
  reject,
} from '../../network/wire/judged.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';

/** The heartbeat inside a verified event, or why it does not count. */
export function toHeartbeat(event: SignedEvent, context: ClaimContext): Judged<Heartbeat> {
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

/** An unsigned heartbeat event saying what the heartbeat says, dated as the heartbeat is. */
export function buildHeartbeat(run: string, own: Heartbeat): EventDraft {
  const { capabilities, relays } = own;
  return heartbeat.build(
    {
      run,
      worker: own.worker,
      round: own.round,
      interval: own.intervalSeconds,
      examples: own.examples,
      capabilities: capabilities.length > 0 ? capabilities : undefined,
      relays: relays.length > 0 ? relays : undefined,
      model: own.digest,
      cohort: own.cohort,
      leaving: own.leaving ? true : undefined,
      scope: true,
    },
    own.createdAt,
  );
}
