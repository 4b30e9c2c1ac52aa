/**
 * Workers of the Python reference that restart within a round. The reference collects only gradients dated after its
 * own heartbeat of the round, less a second, and would step alone if the others had sent theirs before. So this worker
 * signs its gradient again, with a newer date, for such a heartbeat.
 */
import { type Watch, watchChanges } from '../../base/async.ts';
import { assertSealed, type SealedState } from '../../worker/state.ts';
import type { PythonState, RecordedSession } from './session.ts';

/** Maximum number of times that a gradient is signed again: each time relays carry it once more. */
const MOST_RENEWALS = 4;

export interface Renewing extends Watch {
  /** The state with the gradient as it was signed last. */
  readonly state: SealedState<PythonState>;
}

/** Signs the gradient of a round again for each worker of the reference that begins the round later, until stopped. */
export function renewForRestarts(state: PythonState, session: RecordedSession): Renewing {
  const { wire, clock, report } = session.ports;
  const sealed = assertSealed(state);
  let { event } = sealed.sent;
  const sent = {
    ...sealed.sent,
    get event() {
      return event;
    },
  };
  let left = session.reference.isCompatible ? MOST_RENEWALS : 0;
  let isRenewing = false;

  /** Reports whether a worker of the reference began this round after the gradient was dated. Ours name a digest. */
  const isTooOld = (): boolean =>
    [...wire.heartbeats.values()].some(
      ({ worker, round, digest, leaving, createdAt }) =>
        worker !== wire.me &&
        round === state.round &&
        digest === undefined &&
        !leaving &&
        createdAt - 1 > event.created_at &&
        createdAt - 1 <= clock.now() / 1000,
    );

  async function renew(): Promise<void> {
    event = await wire.renew(event);
    wire.send(sent);
    const message = 'a worker restarted within the round: the gradient was sent again, newly dated';
    report({ type: 'notice', message });
  }

  const watch = watchChanges(wire.changed, () => {
    if (left === 0 || isRenewing || !isTooOld()) return;
    left--;
    isRenewing = true;
    void renew()
      .catch(() => undefined) // closed meanwhile
      .finally(() => {
        isRenewing = false;
      });
  });
  return { state: { ...sealed, sent }, stop: watch.stop };
}
