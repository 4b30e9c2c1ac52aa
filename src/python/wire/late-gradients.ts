/** Gradients of earlier rounds that relays still hold: asked for once, judged, the newest of each worker and round. */
import { gradient } from '../../../kinds/gradient.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import { judgeClaim, newer, slotOf } from '../../network/wire/judged.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { LateGradient } from './late-record.ts';
import type { LateRequest, ReferenceProfileOptions } from './python-events.ts';

/** A relay that has more than this many of them is not a relay of one run of friends. */
const MAX_LATE = 1024;

/** By round, worker, date and event id: the order they are summed in. What they decode to is judged where they are used. */
export async function findLateGradients(
  { relays, clock, signal, maxContainerBytes, ...options }: ReferenceProfileOptions,
  scope: Filter,
  { round, since, waitMs }: LateRequest,
): Promise<readonly LateGradient[]> {
  const found = new Map<string, LateGradient>();
  const anyKey = options.reference?.isCompatible;
  function take(event: SignedEvent): void {
    const late = lateOf(event, { run: options.run, nowSeconds: clock.now() / 1000, anyKey });
    if (!late || late.round >= round || late.payload.length > 2 * maxContainerBytes) return;
    const slot = slotOf(late);
    const held = found.get(slot);
    if (held ? newer(late, held) : found.size < MAX_LATE) found.set(slot, late);
  }
  const filter = { ...scope, kinds: [gradient.kind], ...(since === undefined ? {} : { since }) };
  const { events } = await relays.query([filter], { waitMs, signal });
  for (const event of events) take(event);
  return [...found.values()].sort(
    (a, b) =>
      a.round - b.round ||
      compareCodePoints(a.worker, b.worker) ||
      a.createdAt - b.createdAt ||
      compareCodePoints(a.eventId, b.eventId),
  );
}

function lateOf(
  event: SignedEvent,
  ours: Parameters<typeof judgeClaim>[2],
): (LateGradient & { readonly payload: string }) | undefined {
  const parsed = gradient.parse(event);
  if (!parsed.ok || judgeClaim(event, parsed.value, ours)) return undefined;
  const { round, worker, model: base, examples, payload } = parsed.value;
  const dated = { eventId: event.id, createdAt: event.created_at };
  return { round, worker, base, examples, payload, ...dated };
}
