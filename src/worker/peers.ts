/** Who else is in the run, by heartbeats, and the two waits for them outside a round: before the first one and after the last. */

import { notifiedOrDeadline } from '../base/async.ts';
import { RelayError } from '../base/errors.ts';
import { within } from '../network/transport/deadline.ts';
import type { Heartbeat } from '../run/heartbeat.ts';
import { isStale } from '../run/heartbeat.ts';
import type { WorkerId } from '../run/ids.ts';
import { differencesOfPeers, hasOtherTerms } from './peer-check.ts';
import type { Session } from './ports.ts';
import { RELAY_HINT, relaysAreAtFault } from './relay-watch.ts';
import type { WorkerState } from './state.ts';

/** How long the end of a run waits for the peers' digests of the final state. */
const FAREWELL_MS = 10_000;

/**
 * Returns once enough workers of the run are alive; `answer` tells each new one that this one is there too, whatever relays have forgotten.
 * Throws `round/no-peers` when they do not come.
 */
export async function waitForWorkers(session: Session, answer: () => void): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  const deadlineMs = clock.now() + plan.joinTimeoutMs;
  for (let told = 0; ; ) {
    const have = liveWorkers(session).length;
    if (have > Math.max(1, told) && !wire.isPaced) answer();
    if (have >= plan.waitFor) return tellOfMore(have, session);
    if (clock.now() >= deadlineMs) throw noPeers(have, session);
    if (have !== told) {
      told = have;
      report({ type: 'waiting', what: 'workers', round: 0, have, want: plan.waitFor, missing: [] });
    }
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
}

/** More workers than a strict round counts: which ones it counts would be a matter of arrival. */
function tellOfMore(have: number, { plan: { sync }, ports: { report } }: Session): void {
  if (sync.strategy !== 'strict' || have <= sync.workers) return;
  report({
    type: 'notice',
    message: `${have} workers are here and --sync strict:${sync.workers} counts ${sync.workers}: name them to all with --peers KEY,…, or let everybody start with --sync strict:${have}`,
  });
}

/** Where a relay is at fault, the others may be there all the time. */
function noPeers(have: number, session: Session): RelayError {
  const { plan, ports } = session;
  const { wire } = ports;
  const troubles = wire.troubles();
  // one that waited for this worker in vain may have left a moment earlier
  const strange = differencesOfPeers(session, { withLeft: true });
  const few = `only ${have} of ${plan.waitFor} workers of run ${plan.run} showed up in ${plan.joinTimeoutMs / 1000} s`;
  return new RelayError('round/no-peers', [few, ...troubles, ...strange].join('; '), {
    hint: relaysAreAtFault(wire)
      ? RELAY_HINT
      : 'start the others with the same --run and --relay, or ask for fewer with --sync strict:N or --wait-for N',
  });
}

/**
 * Waits until everybody whose gradient made the final state has said which state they ended in, and this one has been heard,
 * or some seconds; where relays limit what they are sent, for one heartbeat interval longer.
 */
export async function hearPeers(
  state: WorkerState,
  told: Promise<boolean>,
  { plan, ports: { clock, wire }, signal }: Session,
): Promise<void> {
  const patienceMs = FAREWELL_MS + (wire.isPaced ? plan.heartbeatSeconds * 1000 : 0);
  const deadlineMs = clock.now() + patienceMs;
  const silent = () =>
    (state.cohort ?? []).some(
      (worker) => worker !== wire.me && (wire.heartbeats.get(worker)?.round ?? -1) < state.round,
    );
  while (plan.hearsFinalStates && silent() && clock.now() < deadlineMs) {
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
  await within(told, deadlineMs - clock.now(), clock, signal);
}

/** Workers with a fresh heartbeat, ascending; this one always counts. */
export function liveWorkers({ plan, ports: { clock, wire } }: Session): WorkerId[] {
  const nowSeconds = clock.now() / 1000;
  const fresh = (heartbeat: Heartbeat) => !isStale(heartbeat, nowSeconds, plan.maxMissedHeartbeats);
  const live = new Set<WorkerId>([wire.me]);
  for (const heartbeat of wire.heartbeats.values()) {
    if (fresh(heartbeat) && !hasOtherTerms(heartbeat, plan)) live.add(heartbeat.worker);
  }
  return [...live].sort();
}
