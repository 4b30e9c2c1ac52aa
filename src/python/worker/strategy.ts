/**
 * The round strategy of the Python reference's profile: plain averaging, and a checkpoint event after every round. If
 * the reference's records are kept, it also applies late gradients before a round and records the round afterwards.
 */
import { notifiedOrDeadline, within } from '../../base/async.ts';
import { weightOf } from '../../consensus/aggregate/mean.ts';
import type { SignedEvent } from '../../network/event.ts';
import { isTaken, type Sending, type Tracked } from '../../network/transport/delivery.ts';
import type { Contribution } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { createAveraging } from '../../worker/averaging.ts';
import type { RoundSummary } from '../../worker/events.ts';
import { runWorker } from '../../worker/loop.ts';
import { liveWorkers } from '../../worker/peers.ts';
import type { Plan } from '../../worker/plan.ts';
import { assertSealed } from '../../worker/state.ts';
import type { OpenRound, RoundStrategy } from '../../worker/strategy.ts';
import { meanByReciprocal } from '../outer-step.ts';
import type { CheckpointSent } from '../wire/profile.ts';
import {
  lateGradientJson,
  NOT_SENT,
  NOTHING_LATE,
  plainRecord,
  type RoundRecord,
  reconciliationJson,
  roundRecord,
  type SentRecord,
} from '../wire/records.ts';
import { retryTotals } from '../wire/retries.ts';
import { foldLate } from './late.ts';
import { renewForRestarts } from './restarts.ts';
import {
  type Notes,
  noHistory,
  notedPorts,
  type PythonSession,
  type PythonState,
  type RecordedSession,
  type Reference,
} from './session.ts';

/** Plays the remaining rounds and returns the final state. */
export function runPythonWorker(start: PythonState, session: PythonSession): Promise<PythonState> {
  const { reference } = session;
  if (!reference) return runWorker(start, session, createPlain(session));
  const notes: Notes = {};
  const plan = referencePlan(session.plan, reference);
  const ports = notedPorts(session.ports, reference, notes);
  const recorded: RecordedSession = { ...session, plan, ports, reference, notes };
  return runWorker(start, recorded, createRecorded(recorded));
}

/** Adapts the plan: the Python reference sends one heartbeat per round and expects the heartbeat of the round. */
const referencePlan = (plan: Plan, { isCompatible, publishMs }: Reference): Plan => ({
  ...plan,
  heartbeatEachRound: true,
  publishTimeoutMs: publishMs,
  // the number of attempts for a gradient is exactly that of --relay-retries
  waitsForRelays: false,
  refusesLate: false,
  // workers of the reference count the timeout from the last gradient, do not report their final state, and do not
  // bound norms
  ...(isCompatible && {
    timeoutSince: 'last-contribution',
    hearsFinalStates: false,
    normBound: 0,
  }),
});

/** Creates averaging with checkpoints, without records. */
function createPlain(session: PythonSession): RoundStrategy<PythonState> {
  const averaging = createAveraging<PythonState>(session, meanByReciprocal);
  return {
    ...averaging,
    async open(state) {
      const round = await averaging.open(state);
      return {
        ...round,
        async finish(played) {
          const result = await round.finish(played);
          const completed = async () => {
            const next = await result.completed();
            publishCheckpoint(next, session);
            return next;
          };
          return { state: result.state, completed };
        },
      };
    },
  };
}

function createRecorded(session: RecordedSession): RoundStrategy<PythonState> {
  const averaging = createAveraging<PythonState>(session, meanByReciprocal);
  return {
    ...averaging,
    async prepare(state) {
      const isOver = state.round >= session.plan.rounds;
      return { state: isOver ? state : await foldLate(state, session), isOver };
    },
    async open(state): Promise<OpenRound<PythonState>> {
      const round = await averaging.open(state);
      await untilPeersBegan(state.round, session);
      return {
        ...round,
        async finish(played) {
          const renewing = renewForRestarts(played, session);
          const finishing = round.finish(renewing.state).finally(renewing.stop);
          const { inbox, mean, ...result } = await finishing;
          session.notes.mean = mean;
          const contributions = [...inbox.contributions.values()];
          const next = await recordRound(played, result.state, contributions, session);
          const completed = async () => {
            await result.completed();
            const sent = publishCheckpoint(next, session);
            return closeRound(played, next, { sent, cohort: [...inbox.events.values()] }, session);
          };
          return { state: next, completed };
        },
      };
    },
  };
}

/**
 * Waits until the workers of the run are in this round, at most for the round's timeout. Workers of the Python
 * reference ignore a gradient dated before their own round began, so in a mixed fleet a fast worker waits for them.
 */
async function untilPeersBegan(round: number, session: RecordedSession): Promise<void> {
  const { plan, ports, signal, reference } = session;
  if (!reference.isCompatible) return;
  const { clock, wire } = ports;
  const deadlineMs = clock.now() + plan.roundTimeoutMs;
  const expected = plan.sync.strategy === 'strict' ? plan.sync.workers : 1;
  while (inRound(round, session).length < expected && clock.now() < deadlineMs) {
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
}

/** Time the record waits for other relays after the first one accepted the checkpoint. */
const SLOWER_RELAYS_MS = 250;

/** Returns the state with the round's record added to its history. */
async function recordRound(
  before: PythonState,
  next: PythonState,
  cohort: readonly Contribution[],
  session: RecordedSession,
): Promise<PythonState> {
  const { history } = next;
  if (!history) return next;
  const record = await recordOf(before, next, cohort, session);
  const dates = cohort.map(({ createdAt }) => createdAt);
  const lateSince = Math.max(history.lateSince ?? 0, ...dates);
  const records = [...history.records, record];
  return { ...next, history: { ...history, records, lateSince, folded: NOTHING_LATE } };
}

async function recordOf(
  before: PythonState,
  next: PythonState,
  cohort: readonly Contribution[],
  session: RecordedSession,
): Promise<RoundRecord> {
  const { plan, reference, notes } = session;
  const { wire, trainer } = session.ports;
  const summary = next.rounds.at(-1)!;
  const evaluated = (params: PythonState['params']) => trainer.evaluate(params.values, 'shard');
  const weights = { weights: plan.weights, cap: plan.weightCap };
  const { relays: configured } = wire;
  const collected = wire.reachable();
  const failed = configured.filter((relay) => !collected.includes(relay));
  const { heartbeat, gradient } = notes;
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
    ...deliveries({ configured, collected, failed }, { heartbeat, gradient }),
    examples: reference.examples,
    totalWeight: cohort.reduce((sum, { examples }) => sum + weightOf(examples, weights), 0),
    weighted: plan.weights === 'examples' && cohort.some(({ examples }) => examples !== undefined),
    late: before.history?.folded ?? NOTHING_LATE,
  };
}

/** Returns the delivery of this worker's events of a round so far, and the relays that failed. */
function deliveries(
  relays: RoundRecord['relays'],
  { heartbeat, gradient, checkpoint }: { readonly [name: string]: Sending | undefined },
): Pick<RoundRecord, 'heartbeat' | 'gradient' | 'checkpoint' | 'relays' | 'retries'> {
  const outcomes = [heartbeat, gradient, checkpoint].flatMap(outcomesOf);
  const hasFailed = (relay: string) =>
    outcomes.some((outcome) => outcome.relay === relay && !isTaken(outcome));
  const failed = relays.configured.filter(
    (relay) => relays.failed.includes(relay) || hasFailed(relay),
  );
  return {
    heartbeat: sentRecord(heartbeat),
    gradient: sentRecord(gradient),
    checkpoint: sentRecord(checkpoint),
    relays: { ...relays, failed },
    retries: retryTotals(outcomes),
  };
}

const outcomesOf = (sending: Sending | undefined): Tracked['outcomes'] =>
  sending?.tracked?.()?.outcomes ?? [];

function sentRecord(sending: Sending | undefined): SentRecord {
  const tracked = sending?.tracked?.();
  if (!tracked) return NOT_SENT;
  const relays = tracked.outcomes.filter(isTaken).map(({ relay }) => relay);
  return { eventId: tracked.event.id, relays };
}

/** Waits for the delivery of the checkpoint, adds it to the record, and passes the trace of the round to `keep`. */
async function closeRound(
  before: PythonState,
  next: PythonState,
  { sent, cohort }: { readonly sent: CheckpointSent; readonly cohort: readonly SignedEvent[] },
  session: RecordedSession,
): Promise<PythonState> {
  const { reference, notes } = session;
  const { history } = next;
  const record = history?.records.at(-1);
  if (!history || !record) return next;
  const { heartbeat, gradient, local, mean, late } = notes;
  const { content, sending: checkpoint } = sent;
  await untilTaken(checkpoint, session);
  const whole = { ...record, ...deliveries(record.relays, { heartbeat, gradient, checkpoint }) };
  const records = [...history.records.slice(0, -1), whole];
  const after = { ...next, history: { ...history, records } };
  await reference.keep({
    before,
    after,
    local: local && { layout: next.params.layout, values: local.params },
    mean,
    late,
    cohort,
    heartbeat: heartbeat?.tracked?.(),
    gradient: gradient?.tracked?.(),
    checkpoint: { content, tracked: checkpoint?.tracked?.() },
  });
  for (const name of ['gradient', 'local', 'mean', 'late'] as const) delete notes[name];
  return after;
}

/** Waits until a relay has accepted the event or all have failed, and shortly for the other relays. */
async function untilTaken(sending: Sending | undefined, session: RecordedSession): Promise<void> {
  if (!sending) return;
  const { clock } = session.ports;
  await within(sending.taken, session.reference.publishMs, clock, session.signal);
  await within(sending.settled, SLOWER_RELAYS_MS, clock, session.signal);
}

/** Returns the live workers that report this round or a later one. */
function inRound(round: number, session: RecordedSession): readonly string[] {
  const { me, heartbeats } = session.ports.wire;
  return liveWorkers(session).filter(
    (worker) => worker === me || (heartbeats.get(worker)?.round ?? -1) >= round,
  );
}

/** Publishes the state in one of a few slots used in turn; reports a notice if no relay accepts it. */
function publishCheckpoint(
  state: PythonState,
  { plan, events, ports: { wire, clock, report } }: PythonSession,
): CheckpointSent {
  const { round: nextRound, params, history = noHistory } = state;
  const round = nextRound - 1;
  const nowSeconds = Math.floor(clock.now() / 1000);
  const rounds =
    state.history?.records ?? state.rounds.map((each) => shortRecord(each, state, wire.relays));
  const checkpoint = events.checkpoint({
    run: plan.run,
    worker: wire.me,
    round,
    nextRound,
    roundsCompleted: rounds.length,
    slot: round % plan.checkpointHistory,
    state: params,
    momentum: { layout: params.layout, values: state.momentum },
    runtime: plan.runtime,
    rounds: rounds.map(roundRecord),
    lateGradients: history.late.map(lateGradientJson),
    lateReconciliations: history.reconciliations.map(reconciliationJson),
    lateGradientSince: history.lateSince ?? nowSeconds,
    updatedAt: nowSeconds,
  });
  void checkpoint.sending?.settled.then(({ accepted, failed }) => {
    if (accepted.length > 0) return;
    const words = failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
    report({ type: 'notice', message: `no relay accepted the checkpoint (${words})` });
  });
  return checkpoint;
}

/** Returns the record of a round in a run that keeps no records of the Python reference. */
const shortRecord = (
  round: RoundSummary,
  { lossBefore }: PythonState,
  relays: readonly string[],
): RoundRecord =>
  plainRecord(
    {
      round: round.index,
      digestBefore: round.base,
      digestAfter: round.digest,
      losses: {
        before: lossBefore,
        afterInner: round.trainingLoss,
        afterOuter: round.validationLoss ?? round.trainingLoss,
      },
      collectedWorkers: round.accepted,
      reason: round.completionReason,
    },
    relays,
  );
