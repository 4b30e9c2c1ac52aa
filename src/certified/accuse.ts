/** Two events that contradict each other are shown to everybody, unless somebody did already: one proof is enough. */
import type { EventId } from '../run/ids.ts';
import type { Member } from './member.ts';

/** Publishes the proof that these two events make, and tells of it. */
export function accuse(
  events: readonly [EventId, EventId],
  round: number,
  { control, pool, tell }: Pick<Member, 'control' | 'pool' | 'tell'>,
): void {
  const known = pool.proofOf(events);
  if (known) {
    tell.fault(round, known);
    return;
  }
  const proof = control.accuse(events);
  if (proof?.noun.type !== 'fault' || !pool.add(proof.noun)) return;
  control.send(proof.event);
  tell.fault(round, proof.noun);
}
