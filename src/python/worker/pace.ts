/**
 * Staying in step with workers of the Python reference: they do not see a gradient dated before their own round began, so in a mixed
 * fleet a fast worker waits until the others have begun it too.
 */
import { notifiedOrDeadline } from '../../base/notifier.ts';
import { inRound } from './record.ts';
import type { RecordedSession } from './session.ts';

/** Returns when the workers of the run are in this round, or after the round's timeout. */
export async function untilPeersBegan(round: number, session: RecordedSession): Promise<void> {
  const { plan, ports, signal, reference } = session;
  if (!reference.isCompatible) return;
  const { clock, wire } = ports;
  const deadlineMs = clock.now() + plan.roundTimeoutMs;
  const wanted = plan.sync.strategy === 'strict' ? plan.sync.workers : 1;
  while (inRound(round, session).length < wanted && clock.now() < deadlineMs) {
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
}
