/** Stored events of a run without talking to anybody: which filters find all of them, and in which order an archive keeps them. */
import { chunk } from '../../../kinds/chunk.ts';
import { run as runKind } from '../../../kinds/run.ts';
import { snapshot } from '../../../kinds/snapshot.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/filter.ts';
import type { Digest } from '../../run/ids.ts';

/** The spec of a run, whoever published it. */
export const specFilter = (run: Digest): Filter => ({ kinds: [runKind.kind], '#d': [run] });

/** All chunks of these payloads and bodies, whoever signed them. */
export const chunksFilter = (roots: readonly Digest[]): Filter => ({
  kinds: [chunk.kind],
  '#x': roots,
});

/** Each once: spec and snapshots first, then by time and id, so that the same events make the same file. */
export function archiveOrder(events: readonly SignedEvent[]): readonly SignedEvent[] {
  const once = [...new Map(events.map((event) => [event.id, event])).values()];
  return once.sort(
    (a, b) => rank(a) - rank(b) || a.created_at - b.created_at || (a.id < b.id ? -1 : 1),
  );
}

const rank = ({ kind }: SignedEvent): number => {
  const first: readonly number[] = [runKind.kind, snapshot.kind];
  return first.includes(kind) ? first.indexOf(kind) : first.length;
};
