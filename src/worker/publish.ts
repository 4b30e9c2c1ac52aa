/** Sends a sealed gradient until a relay accepts it or it is no longer needed, and reports progress of its chunks. */
import { within } from '../base/async.ts';
import { RelayError } from '../base/errors.ts';
import type { Failure, Progress } from '../network/transport/delivery.ts';
import { roundName } from '../run/ids.ts';
import type { Session } from './ports.ts';
import type { SealedState, Sent, WorkerState } from './state.ts';
import type { OpenRound } from './strategy.ts';

/** Pause before a gradient is sent again. It doubles while relays answer, up to the maximum. */
const RETRY_MS = 1000;
const MAX_RETRY_MS = 30_000;
/** Time after which an upload that still runs is reported: longer than most pauses that relays ask for. */
const SLOW_MS = 180_000;

export interface PublishLimits {
  /** Returns false once the gradient is no longer needed; it is not retried then. */
  isWanted?(): boolean;
}

/**
 * Resolves once a relay accepted the gradient; answers of slower relays are reported later. Sends it again as long as a
 * relay may accept it. Throws a RelayError (`relay/none-accepted`) if all refuse it, if it first needs proof of work,
 * or at the deadline of a plan that does not wait.
 */
export async function publish(
  { round, sent }: { readonly round: number; readonly sent: Sent },
  session: Session,
  { isWanted = () => true }: PublishLimits = {},
): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire } = session.ports;
  const tell = waitingReporter(session);
  for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_RETRY_MS)) {
    const failed = await tryOnce(round, sent, session, { isWanted, tell });
    if (failed === undefined || !isWanted()) return;
    const pending = failed.filter(({ isTemporary }) => isTemporary);
    const isOver = pending.length === 0 || wire.lacksWork(sent.event);
    if (isOver || !plan.waitsForRelays) throw noneAccepted(round, words(failed));
    tell(words(pending));
    // a try costs nothing while no relay is reachable
    if (wire.reachable().length === 0) pauseMs = RETRY_MS;
    await clock.sleep(pauseMs, signal);
  }
}

/** Returns a function that reports once why no relay has the update; the watch reports when all relays are away. */
function waitingReporter({ ports: { wire, report } }: Session): (why: string) => void {
  let wasReported = false;
  return (why) => {
    if (wasReported || wire.reachable().length === 0) return;
    wasReported = true;
    const message = `no relay has the update yet, retrying: ${why}`;
    report({ type: 'notice', message, about: 'relays' });
  };
}

/**
 * Publishes the gradient of a round. If relays require proof of work that it lacks, it is signed again with the work
 * and saved. Returns the state that was published.
 */
export async function publishWorked<S extends WorkerState>(
  trained: SealedState<S>,
  round: OpenRound<S>,
  { ports: { wire, store } }: Session,
): Promise<SealedState<S>> {
  for (let sealed = trained; ; ) {
    try {
      await round.publish(sealed);
      return sealed;
    } catch (error) {
      const { sent } = sealed;
      if (!(error instanceof RelayError) || !wire.lacksWork(sent.event)) throw error;
      sealed = { ...sealed, sent: { ...sent, event: await wire.renew(sent.event) } };
      await store.save(sealed);
    }
  }
}

/** Sends the gradient once; returns the failures if no relay took it. */
async function tryOnce(
  round: number,
  sent: Sent,
  session: Session,
  { isWanted, tell }: Required<PublishLimits> & { tell(why: string): void },
): Promise<readonly Failure[] | undefined> {
  const { plan, signal, ports } = session;
  const { clock, wire, report } = ports;
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
  const { waitsForRelays, roundTimeoutMs, publishTimeoutMs } = plan;
  const patienceMs = waitsForRelays ? SLOW_MS : Math.max(roundTimeoutMs, publishTimeoutMs);
  for (;;) {
    const inTime = within(taken, patienceMs, clock, signal);
    const isTaken = await (progress ? reportWhile(inTime, round, progress, session) : inTime);
    if (isTaken === false) return (await settled).failed;
    if (isTaken || !isWanted()) return undefined;
    const why = `none within ${patienceMs / 1000} s`;
    if (!waitsForRelays) throw noneAccepted(round, why);
    tell(why);
  }
}

const words = (failed: readonly Failure[]): string =>
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
