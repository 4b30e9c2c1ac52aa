/** Closes a round: collects contributions until the sync rule is met, aggregates them and takes the outer step. */

import { notifiedOrDeadline } from '../base/async.ts';
import { RelayError, TrainingError } from '../base/errors.ts';
import { measuringReporter } from '../base/slow.ts';
import { aggregateBounded, type UnboundedRow } from '../consensus/aggregate/bounded.ts';
import { inOrder, type MeanRule, weightOf } from '../consensus/aggregate/mean.ts';
import { nextSizes, rootMeanSquare } from '../consensus/aggregate/norm-bound.ts';
import type { Aggregate } from '../consensus/aggregate/rules.ts';
import { nesterovStep } from '../consensus/outer/nesterov.ts';
import type { RoundInbox } from '../network/wire/wire.ts';
import type { CompletionReason, Sync } from '../run/aggregation.ts';
import type { Contribution } from '../run/contribution.ts';
import { type Digest, roundName, type WorkerId } from '../run/ids.ts';
import { shortName } from '../run/worker-names.ts';
import {
  allFinite,
  createLayout,
  localSlices,
  type Params,
  type Vector,
} from '../tensor/params.ts';
import { CHUNK_LENGTH, type Range, rangeOfPartial } from '../tensor/partial-vector.ts';
import type { RoundSummary } from './events.ts';
import { assertCompany, liveWorkers, RELAY_HINT, relaysAreAtFault } from './peers.ts';
import type { Plan } from './plan.ts';
import type { Session } from './ports.ts';
import { progressReporter, REPORT_MS } from './publish.ts';
import { residualAfter, restoreSent } from './residual.ts';
import { idOf, type SealedState, type WorkerState, withRound } from './state.ts';
import type { RoundStart } from './strategy.ts';

export interface Collected {
  readonly accepted: number;
  readonly live: number;
  readonly caughtUp: boolean;
  readonly nowMs: number;
  readonly deadlineMs: number;
}

/**
 * Returns why the round closes now; undefined to keep collecting. Under `strict` a deadline is `timeout`, even with too
 * few contributions.
 */
function closeReason(sync: Sync, seen: Collected): CompletionReason | undefined {
  if (sync.strategy === 'strict' && seen.accepted >= sync.workers) return 'strict';
  if (sync.strategy === 'quorum' && seen.accepted >= majorityOf(seen.live)) return 'quorum';
  if (sync.strategy === 'async' && seen.caughtUp) return 'async';
  return seen.nowMs >= seen.deadlineMs ? 'timeout' : undefined;
}

const majorityOf = (live: number): number => Math.floor(live / 2) + 1;

/** Returns how many contributions close the round; undefined if the sync rule has no fixed number. */
function wanted(sync: Sync, live: number): number | undefined {
  if (sync.strategy === 'strict') return sync.workers;
  return sync.strategy === 'quorum' ? majorityOf(live) : undefined;
}

/**
 * Collects contributions and returns why the round closed. Throws a RelayError (`round/incomplete`) at the deadline if
 * required contributions are missing.
 */
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
  let reported = '';
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
    // its own contribution counts once a relay has answered
    const missing = live.filter((worker) => !heard.has(worker) && worker !== wire.me);
    const want = wanted(plan.sync, live.length);
    const line = `${accepted}/${want}/${missing}`;
    if (line !== reported) {
      reported = line;
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

/** Reports whether a round that closes at its deadline lacks contributions. */
const missesGradients = ({ sync }: Session['plan'], accepted: number): boolean =>
  accepted === 0 || sync.strategy === 'strict';

function incomplete(inbox: RoundInbox, round: number, session: Session): RelayError {
  const { plan, ports } = session;
  const want = plan.sync.strategy === 'strict' ? plan.sync.workers : 1;
  const heard = workersOf(inbox);
  const missing = liveWorkers(session).filter((worker) => !heard.has(worker));
  const reasons = inbox.rejections.map(
    ({ worker, reason }) =>
      `${worker === undefined ? 'unknown worker' : shortName(worker)}: ${reason}`,
  );
  const foreign = inbox.rejections.some(
    ({ reason }) => reason === 'base-mismatch' || reason === 'wrong-shape',
  );
  const parts = [
    `${roundName(round)} has ${heard.size} of ${want} gradients after ` +
      `${plan.roundTimeoutMs / 1000} s`,
    missing.length > 0 ? `missing ${missing.map(shortName).join(', ')}` : '',
    reasons.length > 0 ? `refused ${[...new Set(reasons)].join(', ')}` : '',
    ...ports.wire.troubles(),
  ];
  return new RelayError('round/incomplete', parts.filter(Boolean).join('; '), {
    hint: foreign
      ? 'a refused worker trains another model or from another state: all need the same ' +
        '--model, --seed and settings'
      : relaysAreAtFault(ports.wire)
        ? RELAY_HINT
        : 'nothing is lost: run the same command again once the others are online, or lower ' +
          '--sync strict:N',
    data: { round, missing },
  });
}

export interface Closing {
  readonly start: RoundStart;
  readonly reason: CompletionReason;
  readonly startedMs: number;
  readonly secondsWaiting: number;
  readonly meanOf: MeanRule;
  /** Returns the digest of the shared state; in a run with tiers that of each local slice. */
  digestsOf(state: { readonly params: Params }): readonly Digest[];
}

/** Returns the state after the outer step over exactly the contributions in the inbox, and their mean. */
export async function applyRound<S extends WorkerState>(
  state: SealedState<S>,
  inbox: RoundInbox,
  { start, reason, startedMs, secondsWaiting, meanOf, digestsOf }: Closing,
  session: Session,
): Promise<{ readonly state: S; readonly mean: Aggregate }> {
  const { plan, ports } = session;
  const { params, sent } = state;
  const cohort = inOrder(
    [...inbox.contributions.values()].map((one) => ({ ...one, id: one.eventId, late: false })),
  );
  const id = idOf(sent);
  const counts = cohort.some(({ eventId }) => eventId === id);
  const { weights, weightCap: cap } = plan;
  const rows = cohort.map((one) => ({
    ...one,
    weight: weightOf(one.examples, { weights, cap }),
  }));
  if (!counts && plan.sync.strategy === 'strict') tellLeftOut(cohort.length, state.round, session);
  const histories = [state.norms, ...(state.outerNorms ?? [])];
  const context = { params: state.params, histories };
  const { mean, typical } = boundedMean(rows, context, plan, { meanOf, seed: start.base });
  const [norms = [], ...outerNorms] = typical.map((size, i) => nextSizes(histories[i] ?? [], size));
  const outer = { ...plan.outer, learningRate: plan.outer.learningRate * mean.rate };
  const stepped = nesterovStep(params.values, state.momentum, mean, outer);
  const next = { layout: params.layout, values: stepped.values };
  assertFinite(next.values, state.round);
  const [digest, ...slices] = digestsOf({ params: next }) as [Digest, ...Digest[]];
  const accepted = [...new Set(cohort.map(({ worker }) => worker))];
  const summary: RoundSummary = {
    index: state.round,
    base: start.base,
    digest,
    ...(slices.length > 0 && { outer: slices }),
    accepted,
    refused: inbox.rejections.map(({ reason, worker }) => ({
      reason,
      ...(worker === undefined ? {} : { worker }),
    })),
    completionReason: reason,
    trainingLoss: sent.trainingLoss,
    ...(await evaluate(next.values, state.round, session)),
    payloadBytes: Math.max(...cohort.map(({ payloadBytes }) => payloadBytes)),
    eventBytes: Math.max(...cohort.map(({ eventBytes }) => eventBytes)),
    residualShare: counts ? sent.residualShare : 1,
    secondsTraining: sent.secondsTraining,
    secondsWaiting,
    seconds: (ports.clock.now() - startedMs) / 1000,
  };
  const after: S = {
    ...state,
    round: state.round + 1,
    params: next,
    momentum: stepped.momentum,
    norms,
    ...(params.layout.slices && { outerNorms }),
    residual: counts ? leftOver(state, start, mean, session) : unsent(state, start, session),
    unpacked: undefined,
    cohort: accepted,
    folded: fold(state.folded, cohort),
    ...withRound(state, summary),
    lastSent: id,
    sent: undefined,
  };
  return { state: after, mean };
}

function tellLeftOut(count: number, round: number, { ports: { report } }: Session): void {
  report({
    type: 'notice',
    message:
      `${roundName(round)} closed on ${count} contributions without this worker's: more workers ` +
      'play than it counts, or its gradient was refused',
  });
}

/** Throws a TrainingError (`round/not-finite`) before a non-finite step is saved. */
function assertFinite(values: Vector, round: number): void {
  if (allFinite(values)) return;
  throw new TrainingError(
    'round/not-finite',
    `the outer step of ${roundName(round)} is not finite`,
    {
      hint: 'lower --outer-learning-rate; the state before the round is kept',
    },
  );
}

/**
 * Returns the residual after a contribution that counted: what was not sent; the full delta in chunks that did not
 * move; the full delta minus the step if the rule left the contribution out.
 */
function leftOver(
  { residual, unpacked, sent }: SealedState<WorkerState>,
  { assignment: { moving, chunksOf } }: RoundStart,
  { mean, moved, unused }: Aggregate,
  { plan, ports: { wire } }: Session,
): Float64Array {
  if (unpacked === undefined || plan.residual === 'none') return residual;
  const taking = new Set(moved);
  return residualAfter(unpacked, residual, {
    still: new Set(moving.filter((chunk) => !taking.has(chunk))),
    instead: unused.has(idOf(sent)) ? mean : undefined,
    sent: chunksOf(wire.me),
    isSettled: true,
    moved: moving,
  });
}

/** Returns the residual after a contribution that did not count; under `async` others may still use it later. */
function unsent(
  { residual, sent, round }: SealedState<WorkerState>,
  { assignment }: RoundStart,
  { plan, ports: { wire } }: Session,
): Float64Array {
  if (plan.sync.strategy === 'async') return residual;
  return restoreSent(residual, wire.open(sent, { round, assignment }), plan.residual);
}

/** Returns the newest round of each worker whose contribution is in the model. */
function fold(
  before: WorkerState['folded'],
  cohort: readonly Contribution[],
): WorkerState['folded'] {
  const folded: Record<WorkerId, number> = { ...before };
  for (const { worker, round } of cohort) folded[worker] = Math.max(round, folded[worker] ?? -1);
  return folded;
}

/** Evaluates the shared parameters and writes a sample, if the plan asks this worker to. */
export async function evaluate(
  values: Vector,
  round: number,
  { plan, ports: { trainer, report } }: Session,
): Promise<Pick<RoundSummary, 'validationLoss' | 'bitsPerByte' | 'accuracy' | 'sample'>> {
  if (!plan.evaluate) return {};
  const shared = Float32Array.from(values);
  const isLast = round === plan.rounds - 1;
  const limit = isLast ? {} : { batches: plan.evaluateBatches };
  const onProgress = measuringReporter(`the model after ${roundName(round)}`, (message) =>
    report({ type: 'notice', message }),
  );
  const validationLoss = await trainer.evaluate(shared, 'validation', { ...limit, onProgress });
  const { bytesPerToken, writeSample } = plan;
  return {
    validationLoss,
    ...(bytesPerToken > 0 && { bitsPerByte: validationLoss / bytesPerToken / Math.LN2 }),
    ...(trainer.accuracy && {
      accuracy: await trainer.accuracy(shared, 'validation', limit),
    }),
    ...(writeSample && { sample: await writeSample(shared, round) }),
  };
}

/** Returns the parameters of each local slice. */
export const partsOf = (params: Params): readonly Params[] =>
  localSlices(params.layout).map((slice) => partOf(params, slice));

function partOf({ layout, values }: Params, { from, to }: Range): Params {
  const slots = layout.slots.filter(({ offset }) => from <= offset && offset < to);
  return { layout: createLayout(slots), values: values.subarray(from, to) };
}

type RulesOfRows = Pick<Plan, 'normBound' | 'normalize' | 'aggregation'>;

type Means = {
  readonly meanOf?: MeanRule;
  readonly seed?: string;
  /** Ranges that are bounded and averaged on their own; default the local slices of a model with tiers. */
  readonly parts?: readonly Range[] | undefined;
};

/**
 * Returns the mean of the contributions, each bounded by the typical norms of recent rounds, slice by slice; `typical`
 * are this round's typical norms, one per local slice.
 */
export function boundedMean(
  rows: readonly UnboundedRow[],
  last: { readonly params: Params; readonly histories: readonly (readonly number[])[] },
  plan: RulesOfRows,
  { parts, ...means }: Means,
): { readonly mean: Aggregate; readonly typical: readonly number[] } {
  const { params, histories } = last;
  const slices = parts ?? (params.layout.slices && localSlices(params.layout));
  if (!slices) {
    const part = meanOfPart(rows, params, histories[0] ?? [], plan, means);
    return { mean: part.mean, typical: [part.typical] };
  }
  const mean = new Float64Array(params.layout.size);
  const moved: number[] = [];
  const typical = slices.map((slice, i) => {
    const sliced = rows.map((row) => ({ ...row, delta: rangeOfPartial(row.delta, slice) }));
    const there = sliced.filter(({ delta }) => delta.chunks.length > 0);
    // a slice without contributions does not change
    if (there.length === 0) return 0;
    const part = meanOfPart(there, partOf(params, slice), histories[i] ?? [], plan, means);
    mean.set(part.mean.mean, slice.from);
    for (const chunk of part.mean.moved) moved.push(chunk + slice.from / CHUNK_LENGTH);
    return part.typical;
  });
  const whole = { mean, moved: Uint32Array.from(moved), unused: new Set<string>(), rate: 1 };
  return { mean: whole, typical };
}

function meanOfPart(
  rows: readonly UnboundedRow[],
  { layout, values }: Params,
  history: readonly number[],
  { normBound, normalize, aggregation }: RulesOfRows,
  { meanOf, seed }: Means,
): { readonly mean: Aggregate; readonly typical: number } {
  const { aggregate: mean, typical } = aggregateBounded(rows, {
    size: layout.size,
    normBound,
    history,
    parameters: () => rootMeanSquare(values),
    normalize,
    aggregation,
    ...(meanOf && { meanOf }),
    ...(seed !== undefined && { seed }),
  });
  return { mean, typical };
}
