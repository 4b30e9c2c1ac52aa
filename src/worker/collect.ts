/** When a round stops collecting, as a pure decision, and the wait until then. */
import { notifiedOrDeadline } from '../base/async.ts';
import { RelayError } from '../base/errors.ts';
import type { RoundInbox } from '../network/wire/wire.ts';
import type { CompletionReason, Sync } from '../run/aggregation.ts';
import { roundName } from '../run/ids.ts';
import { assertCompany, liveWorkers, RELAY_HINT, relaysAreAtFault } from './peers.ts';
import type { Session } from './ports.ts';
import { progressReporter, REPORT_MS } from './publish.ts';

export interface Collected {
  readonly accepted: number;
  readonly live: number;
  readonly caughtUp: boolean;
  readonly nowMs: number;
  readonly deadlineMs: number;
}

/** Why to stop now, or undefined to go on. Under `strict` a missed deadline is `timeout` with too few accepted. */
function closeReason(sync: Sync, seen: Collected): CompletionReason | undefined {
  if (sync.strategy === 'strict' && seen.accepted >= sync.workers) return 'strict';
  if (sync.strategy === 'quorum' && seen.accepted >= majorityOf(seen.live)) return 'quorum';
  if (sync.strategy === 'async' && seen.caughtUp) return 'async';
  return seen.nowMs >= seen.deadlineMs ? 'timeout' : undefined;
}

const majorityOf = (live: number): number => Math.floor(live / 2) + 1;

/** How many gradients close the round, where a number does. */
function wanted(sync: Sync, live: number): number | undefined {
  if (sync.strategy === 'strict') return sync.workers;
  return sync.strategy === 'quorum' ? majorityOf(live) : undefined;
}

/** Returns why the round closed. Throws `round/incomplete` at the deadline of a round that misses gradients. */
export async function collect(
  inbox: RoundInbox,
  round: number,
  session: Session,
): Promise<CompletionReason> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  let deadlineMs = clock.now() + plan.roundTimeoutMs;
  let most = 0;
  const reportProgress = progressReporter(session);
  let told = '';
  let refused = 0;
  const reportRefused = () => {
    for (; refused < inbox.rejections.length; refused++) {
      const { worker, reason, detail } = inbox.rejections[refused]!;
      report({
        type: 'refused',
        round,
        reason,
        detail,
        ...(worker === undefined ? {} : { worker }),
      });
    }
  };
  for (;;) {
    reportRefused();
    const live = liveWorkers(session);
    const heard = workersOf(inbox);
    const accepted = heard.size;
    const nowMs = clock.now();
    if (plan.timeoutSince === 'last-contribution' && accepted > most)
      deadlineMs = nowMs + plan.roundTimeoutMs;
    most = accepted;
    const seen = { accepted, live: live.length, caughtUp: inbox.caughtUp, nowMs, deadlineMs };
    const reason = closeReason(plan.sync, seen);
    if (reason) {
      inbox.giveUp();
      reportRefused();
      if (reason === 'timeout' && missesGradients(plan, accepted))
        throw incomplete(inbox, round, session);
      return reason;
    }

    if (round === 0 && !inbox.pulling()) assertCompany(accepted, session);
    const missing = live.filter((worker) => !heard.has(worker));
    const want = wanted(plan.sync, live.length);
    const line = `${accepted}/${want}/${missing}`;
    if (line !== told) {
      told = line;
      const goal = want === undefined ? {} : { want };
      report({ type: 'waiting', what: 'gradients', round, have: accepted, missing, ...goal });
    }
    const pulled = inbox.pulling();
    if (pulled) reportProgress('in', round, pulled);
    const untilMs = pulled ? Math.min(deadlineMs, nowMs + REPORT_MS) : deadlineMs;
    await notifiedOrDeadline(wire.changed, clock, untilMs, signal);
  }
}

const workersOf = ({ contributions }: RoundInbox): Set<string> =>
  new Set([...contributions.values()].map(({ worker }) => worker));

const missesGradients = ({ sync }: Session['plan'], accepted: number): boolean =>
  accepted === 0 || (sync.strategy === 'strict' && accepted < sync.workers);

function incomplete(inbox: RoundInbox, round: number, session: Session): RelayError {
  const { plan, ports } = session;
  const want = plan.sync.strategy === 'strict' ? plan.sync.workers : 1;
  const heard = workersOf(inbox);
  const missing = liveWorkers(session).filter((worker) => !heard.has(worker));
  const reasons = inbox.rejections.map(
    ({ worker, reason }) => `${worker?.slice(0, 8) ?? 'somebody'}: ${reason}`,
  );
  const foreign = inbox.rejections.some(
    ({ reason }) => reason === 'base-mismatch' || reason === 'wrong-shape',
  );
  const parts = [
    `${roundName(round)} has ${heard.size} of ${want} gradients after ` +
      `${plan.roundTimeoutMs / 1000} s`,
    missing.length > 0 ? `missing ${missing.map((worker) => worker.slice(0, 8)).join(', ')}` : '',
    reasons.length > 0 ? `refused ${[...new Set(reasons)].join(', ')}` : '',
    ...ports.wire.troubles(),
  ];
  return new RelayError('round/incomplete', parts.filter(Boolean).join('; '), {
    hint: foreign
      ? 'a refused worker trains another model or from another state: all need the same ' +
        '--model, --seed and settings'
      : relaysAreAtFault(ports.wire)
        ? RELAY_HINT
        : 'nothing is lost: run the same command again when the others are there, or lower ' +
          '--sync strict:N',
    data: { round, missing },
  });
}
