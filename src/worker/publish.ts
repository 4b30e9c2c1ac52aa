/** Sends a sealed gradient until a relay accepts it or the round's time is up, and reports progress of its chunks. */
import { within } from '../base/async.ts';
import { RelayError } from '../base/errors.ts';
import type { Delivery, Progress } from '../network/transport/delivery.ts';
import { roundName } from '../run/ids.ts';
import type { Session } from './ports.ts';
import type { SealedState, Sent, WorkerState } from './state.ts';
import type { OpenRound } from './strategy.ts';

const RETRY_MS = 1000;
/**
 * Least time to wait for a relay: longer than the pauses after `rate-limited`, HTTP 429 or too much traffic, and than
 * most waits for time to work. They pass, so they must not end the worker.
 */
const LEAST_PATIENCE_MS = 180_000;

export interface PublishLimits {
  /** Returns false once the gradient is no longer needed; it is not retried then. */
  isWanted?(): boolean;
}

/**
 * Resolves once a relay accepted the gradient; answers of slower relays are reported later. Throws a RelayError
 * (`relay/none-accepted`) if no relay did in time.
 */
export async function publish(
  { round, sent }: { readonly round: number; readonly sent: Sent },
  session: Session,
  { isWanted = () => true }: PublishLimits = {},
): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  const leastMs = plan.waitsForRelays ? LEAST_PATIENCE_MS : 0;
  const patienceMs = Math.max(plan.roundTimeoutMs, plan.publishTimeoutMs, leastMs);
  const deadlineMs = clock.now() + patienceMs;
  for (let wasReported = false; ; wasReported = true) {
    const failed = await tryOnce(round, sent, deadlineMs, session);
    if (failed === 'taken' || !isWanted()) return;
    const pending = failed === 'late' ? [] : failed.filter(({ isTemporary }) => isTemporary);
    const hasTime = plan.waitsForRelays && clock.now() + RETRY_MS < deadlineMs;
    if (pending.length === 0 || !hasTime) {
      throw noneAccepted(
        round,
        failed === 'late' ? `none within ${patienceMs / 1000} s` : words(failed),
      );
    }
    // the watch already reports when all relays are away
    if (!wasReported && wire.reachable().length > 0)
      report({
        type: 'notice',
        message: `no relay has the update yet, retrying: ${words(pending)}`,
      });
    await clock.sleep(RETRY_MS, signal);
  }
}

/**
 * Publishes the gradient of a round. If it was signed before a relay required proof of work, it is signed again with
 * the work, saved, and published once more. Returns the state that was published.
 */
export async function publishWorked<S extends WorkerState>(
  sealed: SealedState<S>,
  round: OpenRound<S>,
  { ports: { wire, store } }: Session,
): Promise<SealedState<S>> {
  try {
    await round.publish(sealed);
    return sealed;
  } catch (error) {
    if (!(error instanceof RelayError) || !wire.lacksWork(sealed.sent.event)) throw error;
    const event = await wire.renew(sealed.sent.event);
    if (wire.lacksWork(event)) throw error; // too large to work on
    const worked = { ...sealed, sent: { ...sealed.sent, event } };
    await store.save(worked);
    await round.publish(worked);
    return worked;
  }
}

async function tryOnce(
  round: number,
  sent: Sent,
  deadlineMs: number,
  session: Session,
): Promise<'taken' | 'late' | Delivery['failed']> {
  const { clock, wire, report } = session.ports;
  const { payloadBytes, eventBytes } = sent;
  const { taken, settled, progress } = wire.send(sent);
  void settled.then(({ accepted, failed }) => {
    if (accepted.length === 0) return;
    const others = failed.map(({ relay, message }) => ({ relay, message }));
    report({
      type: 'published',
      round,
      payloadBytes,
      eventBytes,
      relays: accepted,
      failed: others,
    });
  });
  const inTime = within(taken, deadlineMs - clock.now(), clock, session.signal);
  const isTaken = await (progress ? reportWhile(inTime, round, progress, session) : inTime);
  if (isTaken === undefined) return 'late';
  return isTaken ? 'taken' : (await settled).failed;
}

const words = (failed: Delivery['failed']): string =>
  failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');

const noneAccepted = (round: number, why: string): RelayError =>
  new RelayError(
    'relay/none-accepted',
    `no relay took the gradient of ${roundName(round)}: ${why}`,
    {
      hint:
        'nothing is lost: see what the relays allow with `nostrain relays check URL`, ' +
        'then run the same command again',
    },
  );

export const REPORT_MS = 1000;

export function progressReporter({
  ports: { report },
}: Session): (way: 'out' | 'in', round: number, progress: Progress) => void {
  let reported = '';
  return (way, round, { have, of }) => {
    const line = `${way}/${round}/${have}/${of}`;
    if (line === reported) return;
    reported = line;
    report({ type: 'transfer', way, round, have, of });
  };
}

/** Resolves with the promise's value; until then reports the upload's progress every second. */
async function reportWhile<T>(
  promise: Promise<T>,
  round: number,
  progress: () => Progress,
  session: Session,
): Promise<T> {
  const reporter = progressReporter(session);
  const done = new AbortController();
  const watch = async (): Promise<void> => {
    while (!done.signal.aborted) {
      await session.ports.clock.sleep(REPORT_MS, done.signal).catch(() => undefined);
      if (!done.signal.aborted) reporter('out', round, progress());
    }
  };
  const watching = watch();
  try {
    return await promise;
  } finally {
    done.abort();
    await watching;
  }
}
