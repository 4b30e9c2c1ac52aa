/** A checkpoint event as a worker that collects checkpoints takes it. */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import type { SignedEvent } from '../../../src/network/event.ts';
import { type ClaimContext, judgeClaim } from '../../../src/network/wire/judged.ts';
import { EventCollector } from '../../../src/python/collect/event-collector.ts';
import type { EventOf, ReferenceEvent } from '../../../src/python/wire/reference-event.ts';
import type { RejectReason } from '../../../src/run/contribution.ts';

export type JudgedCheckpoint =
  | ({ readonly ok: true } & Pick<EventOf<'checkpoint'>, 'said' | 'body'>)
  | { readonly ok: false; readonly reason: RejectReason };

/** What it says, or why it is refused; one of another run is passed over by the collector, so its claim is judged here. */
export function judgeCheckpoint(event: SignedEvent, context: ClaimContext): JudgedCheckpoint {
  const isOf = (read: ReferenceEvent) => read.type === 'checkpoint';
  const collector = new EventCollector({ ...context, isOf, matches: () => true });
  const kept = collector.read(event);
  if (kept) return { ok: true, said: kept.read.said, body: kept.read.body };
  const [reason] = collector.invalid.keys();
  if (reason !== undefined) return { ok: false, reason };
  const said = checkpoint.parse(event);
  const claim = said.ok ? judgeClaim(event, said.value, context) : undefined;
  return { ok: false, reason: claim?.rejection.reason ?? 'malformed' };
}
