/** Sends a sealed gradient and waits until the relays have it. */

import { RelayError } from '../base/errors.ts';
import { within } from '../network/transport/deadline.ts';
import { roundName } from '../run/round-name.ts';
import type { Session } from './ports.ts';
import type { SealedState, WorkerState } from './state.ts';
import { reportWhile } from './transfer-progress.ts';

/** Returns once a relay took the gradient; what slower relays said is reported when they have said it. */
export async function publish(
  { round, sent }: SealedState<WorkerState>,
  session: Session,
): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  const { payloadBytes, eventBytes } = sent;
  const { taken, settled, progress } = wire.send(sent);
  const told = settled.then(({ accepted, failed }) => {
    report({ type: 'published', round, payloadBytes, eventBytes, relays: accepted, failed });
    return failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
  });
  const patienceMs = Math.max(plan.roundTimeoutMs, plan.publishTimeoutMs);
  const inTime = within(taken, patienceMs, clock, signal);
  const isTaken = await (progress ? reportWhile(inTime, round, progress, session) : inTime);
  if (isTaken) return;
  const why = isTaken === undefined ? `none within ${patienceMs / 1000} s` : await told;
  throw new RelayError(
    'relay/none-accepted',
    `no relay took the gradient of ${roundName(round)}: ${why}`,
    {
      hint: 'nothing is lost: see what the relays allow with `nostrain relays check URL`, then run the same command again',
    },
  );
}
