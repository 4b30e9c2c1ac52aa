/** The record of a round that is over, and what it leaves behind: only in runs that keep the Python reference's records. */

import { within } from '../../base/async.ts';
import { weightOf } from '../../consensus/aggregate/mean.ts';
import type { SignedEvent } from '../../network/event.ts';
import { isTaken, type Sending, type Tracked } from '../../network/transport/delivery.ts';
import type { Contribution } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { liveWorkers } from '../../worker/peers.ts';
import { assertSealed } from '../../worker/state.ts';
import { type RetryTotals, retryTotals } from '../wire/publishing.ts';
import type { CheckpointSent } from '../wire/python-events.ts';
import { NOT_SENT, NOTHING_LATE, type RoundRecord, type SentRecord } from '../wire/round-record.ts';
import type { Notes, PythonState, RecordedSession } from './session.ts';

/** Relays that have not said what became of a checkpoint so long after the first one took it are left out of the record. */
const SLOWER_RELAYS_MS = 250;

/** The state with the round's record added to its history. */
export async function recordRound(
  before: PythonState,
  next: PythonState,
  cohort: Iterable<Contribution>,
  session: RecordedSession,
): Promise<PythonState> {
  const { history } = next;
  if (!history) return next;
  const contributions = [...cohort];
  const record = await recordOf(before, next, contributions, session);
  return {
    ...next,
    history: {
      ...history,
      records: [...history.records, record],
      lateSince: Math.max(
        history.lateSince ?? 0,
        ...contributions.map(({ createdAt }) => createdAt),
      ),
      folded: NOTHING_LATE,
    },
  };
}

async function recordOf(
  before: PythonState,
  next: PythonState,
  cohort: readonly Contribution[],
  session: RecordedSession,
): Promise<RoundRecord> {
  const { plan, ports, reference, notes } = session;
  const { wire, trainer } = ports;
  const { heartbeat, gradient } = notes;
  const summary = next.rounds.at(-1)!;
  const evaluated = (params: PythonState['params']) => trainer.evaluate(params.values, 'shard');
  const weights = { weights: plan.weights, cap: plan.weightCap };
  const reachable = wire.reachable();
  return {
    round: before.round,
    digestBefore: summary.base,
    digestAfter: summary.digest,
    losses: {
      before: await evaluated(before.params),
      afterInner: assertSealed(before).sent.trainingLoss,
      afterOuter: await evaluated(next.params),
    },
    knownWorkers: inRound(before.round, session),
    collectedWorkers: [...new Set(cohort.map(({ worker }) => worker))].sort(compareCodePoints),
    reason: summary.completionReason === 'timeout' ? 'idle-timeout' : summary.completionReason,
    heartbeat: sentRecord(heartbeat),
    gradient: sentRecord(gradient),
    checkpoint: NOT_SENT,
    relays: {
      configured: wire.relays,
      collected: reachable,
      failed: wire.relays.filter(
        (relay) => !reachable.includes(relay) || failedAt(relay, [heartbeat, gradient]),
      ),
    },
    examples: reference.examples,
    totalWeight: cohort.reduce((sum, { examples }) => sum + weightOf(examples, weights), 0),
    weighted: plan.weights === 'examples' && cohort.some(({ examples }) => examples !== undefined),
    retries: retriesOf([heartbeat, gradient]),
    late: before.history?.folded ?? NOTHING_LATE,
  };
}

interface Closed {
  readonly sent: CheckpointSent | undefined;
  /** Events of the cohort. */
  readonly cohort: Iterable<SignedEvent>;
}

/** Publishes nothing itself: waits for what became of the checkpoint, notes it, and hands the whole round to whoever keeps it. */
export async function closeRound(
  before: PythonState,
  next: PythonState,
  { sent, cohort }: Closed,
  session: RecordedSession,
): Promise<PythonState> {
  const { reference, notes } = session;
  const { history } = next;
  const record = history?.records.at(-1);
  if (!history || !record) return next;
  const { heartbeat, gradient, local, mean, late } = notes;
  const checkpoint = sent?.sending;
  await untilTold(checkpoint, session);
  const all = [heartbeat, gradient, checkpoint];
  const { relays } = record;
  const whole: RoundRecord = {
    ...record,
    heartbeat: sentRecord(heartbeat),
    gradient: sentRecord(gradient),
    checkpoint: sentRecord(checkpoint),
    relays: {
      ...relays,
      failed: relays.configured.filter(
        (relay) => relays.failed.includes(relay) || failedAt(relay, all),
      ),
    },
    retries: retriesOf(all),
  };
  const after = {
    ...next,
    history: { ...history, records: [...history.records.slice(0, -1), whole] },
  };
  await reference.keep({
    before,
    after,
    local: local && { layout: next.params.layout, values: local.params },
    mean,
    late,
    cohort: [...cohort],
    heartbeat: heartbeat?.tracked?.(),
    gradient: gradient?.tracked?.(),
    checkpoint: sent && { content: sent.content, tracked: checkpoint?.tracked?.() },
  });
  forget(notes);
  return after;
}

/** Until a relay has taken it or none will, and a moment for the others. */
async function untilTold(sending: Sending | undefined, session: RecordedSession): Promise<void> {
  if (!sending) return;
  const { clock } = session.ports;
  await within(sending.taken, session.reference.publishMs, clock, session.signal);
  await within(sending.settled, SLOWER_RELAYS_MS, clock, session.signal);
}

function forget(notes: Notes): void {
  delete notes.gradient;
  delete notes.local;
  delete notes.mean;
  delete notes.late;
}

/** Live workers that say they have begun the round. */
export function inRound(round: number, session: RecordedSession): readonly string[] {
  const { me, heartbeats } = session.ports.wire;
  return liveWorkers(session).filter(
    (worker) => worker === me || (heartbeats.get(worker)?.round ?? -1) >= round,
  );
}

const outcomesOf = (sending: Sending | undefined): Tracked['outcomes'] =>
  sending?.tracked?.()?.outcomes ?? [];

function sentRecord(sending: Sending | undefined): SentRecord {
  const tracked = sending?.tracked?.();
  if (!tracked) return NOT_SENT;
  return {
    eventId: tracked.event.id,
    relays: tracked.outcomes.filter(isTaken).map(({ relay }) => relay),
  };
}

const failedAt = (relay: string, sendings: readonly (Sending | undefined)[]): boolean =>
  sendings.flatMap(outcomesOf).some((outcome) => outcome.relay === relay && !isTaken(outcome));

const retriesOf = (sendings: readonly (Sending | undefined)[]): RetryTotals =>
  retryTotals(sendings.flatMap(outcomesOf));
