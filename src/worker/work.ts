/** The half of a round in which a worker is alone: train, seal, save, publish. What becomes of it is decided afterwards. */
import { RelayError } from '../base/errors.ts';
import { within } from '../network/transport/deadline.ts';
import { tellWhile } from './moving.ts';
import type { Session } from './session.ts';
import type { Sent, WorkerState } from './state.ts';
import { type Start, trainAndSeal } from './train.ts';

/** A state whose gradient is sealed and on disk. */
export type Trained = WorkerState & { readonly sent: Sent };

const hasSent = (state: WorkerState): state is Trained => state.sent !== undefined;

/** The gradient of the round: the one on disk, or a new one that is on disk before anybody sees it. */
export async function work(state: WorkerState, start: Start, session: Session): Promise<Trained> {
  if (hasSent(state)) return state;
  const trained = await trainAndSeal(state, start, session);
  await session.ports.store.save(trained);
  return trained;
}

/** Returns once the relays have the gradient; what the slower ones said is reported when they have said it. */
export async function publish({ round, sent }: Trained, session: Session): Promise<void> {
  const { plan, reference, signal } = session;
  const { clock, wire, report } = session.ports;
  const { payloadBytes, eventBytes } = sent;
  const sending = wire.send(sent);
  if (session.reference) session.reference.notes.gradient = sending;
  const { taken, settled, progress } = sending;
  const told = settled.then(({ accepted, failed }) => {
    report({ type: 'published', round, payloadBytes, eventBytes, relays: accepted, failed });
    return failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
  });
  const patienceMs = Math.max(plan.roundTimeoutMs, reference?.publishMs ?? 0);
  const inTime = within(taken, patienceMs, clock, signal);
  const isTaken = await (progress ? tellWhile(inTime, round, progress, session) : inTime);
  if (isTaken) return;
  const why = isTaken === undefined ? `none within ${patienceMs / 1000} s` : await told;
  throw new RelayError(
    'relay/none-accepted',
    `no relay took the gradient of round ${round}: ${why}`,
    {
      hint: 'nothing is lost: see what the relays allow with `nostrain relays check URL`, then run the same command again',
    },
  );
}
