/**
 * Late gradients in the Python reference's profile: queried when the next round begins, and applied once by an outer
 * step over their weighted mean. In the Python reference that step changes the outer momentum; ours does not. Workers
 * end in the same state only if all of them saw the same late gradients.
 */
import { nesterovStep } from '../../consensus/outer/nesterov.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import { type Layout, type Params, stateDigest, type Vector } from '../../tensor/params.ts';
import {
  addPartial,
  chunkCount,
  type PartialVector,
  partialOf,
} from '../../tensor/partial-vector.ts';
import type { ContainerLimits } from '../codec/container.ts';
import { decodeNstr } from '../codec/nstr.ts';
import { readNstr } from '../codec/payload.ts';
import { flipped } from '../wire/messages.ts';
import {
  isPending,
  type LateGradient,
  NOTHING_LATE,
  type Reconciliation,
} from '../wire/records.ts';
import type { History, LateRule, PythonState, RecordedSession } from './session.ts';

/** Maximum number of late gradients remembered: every checkpoint contains them. */
const MOST_LATE = 4096;

/** Returns the state from which the round starts; unchanged if no records are kept or the gradient is sealed. */
export async function foldLate(state: PythonState, session: RecordedSession): Promise<PythonState> {
  const { reference, events, notes, plan, ports, signal } = session;
  const { history, round } = state;
  if (!history || state.sent || round === 0 || history.lateSince === undefined) {
    return state;
  }
  signal.throwIfAborted();
  const { isCompatible } = reference;
  const waitMs = Math.min(reference.lateWaitMs, plan.roundTimeoutMs);
  const since = isCompatible ? history.lateSince + 1 : undefined;
  const collected = await events.late({ round, since, waitMs });
  const late = isCompatible
    ? merged(history.late, collected)
    : taken(collected, history, round, session);
  notes.late = late.filter((one) => !history.late.includes(one));
  const now = Math.floor(ports.clock.now() / 1000);
  const { params, momentum } = state;
  const options = { round, rule: reference.late, limits: reference.limits, now };
  const { done, errors, ...fold } = reconcile({ params, momentum, late }, options);
  if (done) ports.report({ type: 'notice', message: wordFold(done) });
  return {
    ...state,
    params: fold.params,
    momentum: fold.momentum,
    history: {
      ...history,
      late: fold.late,
      reconciliations: done ? [...history.reconciliations, done] : history.reconciliations,
      lateSince: Math.max(history.lateSince, ...collected.map(({ createdAt }) => createdAt)),
      folded: { ...(done ? summaryOf(done) : NOTHING_LATE), errors },
    },
  };
}

function wordFold({ eventIds, lateRounds, round }: Reconciliation): string {
  const what = eventIds.length === 1 ? 'a late gradient' : `${eventIds.length} late gradients`;
  const late = `${what} of round ${lateRounds.map(roundNumber).join(', ')}`;
  return `${late} applied before ${roundName(round)}`;
}

const summaryOf = (done: Reconciliation) => ({
  count: done.eventIds.length,
  weight: done.totalWeight,
  workers: done.workers,
  rounds: done.lateRounds,
  digestBefore: done.digestBefore,
  digestAfter: done.digestAfter,
});

/** Adds late gradients with a new event id, as the Python reference does. */
function merged(
  known: readonly LateGradient[],
  collected: readonly LateGradient[],
): LateGradient[] {
  const ids = new Set(known.map(({ eventId }) => eventId));
  return [...known, ...collected.filter(({ eventId }) => !ids.has(eventId))];
}

/** Adds late gradients that never counted, one per worker and round, made from this worker's state of that round. */
function taken(
  collected: readonly LateGradient[],
  { records, late }: History,
  round: number,
  { ports: { wire, report } }: RecordedSession,
): LateGradient[] {
  const known = new Set(late.map(slot));
  const isNew = (one: LateGradient) => {
    const record = records.find((each) => each.round === one.round);
    if (!record || one.worker === wire.me || known.has(slot(one))) return false;
    if (record.collectedWorkers.includes(one.worker)) return false;
    if (one.base === record.digestBefore) return true;
    const states = `started from ${one.base}, we from ${record.digestBefore}`;
    const detail = `late for ${roundName(one.round)}, ${states}`;
    report({ type: 'refused', round, worker: one.worker, reason: 'base-mismatch', detail });
    return false;
  };
  return [...late, ...collected.filter(isNew).slice(0, Math.max(0, MOST_LATE - late.length))];
}

const slot = ({ round, worker }: LateGradient): string => `${round}:${worker}`;

/** The state that late gradients are applied to, and the late gradients known. */
export interface LateState {
  readonly params: Params;
  readonly momentum: Vector;
  readonly late: readonly LateGradient[];
}

/** The result of applying late gradients. */
export interface LateFold extends LateState {
  /** Absent if no gradient was applied. */
  readonly done?: Reconciliation;
  readonly errors: number;
}

export interface FoldingOptions {
  /** The round that is about to start. */
  readonly round: number;
  readonly rule: LateRule;
  readonly limits: ContainerLimits;
  /** Unix seconds. */
  readonly now: number;
}

/** Applies pending late gradients in the order of the records; a payload that cannot be decoded is an error, once. */
export function reconcile(state: LateState, options: FoldingOptions): LateFold {
  const { rule, round, now } = options;
  const { params: before, momentum } = state;
  const { layout } = before;
  if (rule.strategy === 'discard') return { params: before, momentum, late: state.late, errors: 0 };
  const read = new Map<string, PartialVector | { readonly error: string }>();
  for (const one of state.late) {
    if (isPending(one)) read.set(one.eventId, readDelta(one, layout, options.limits));
  }
  const failed = [...read.values()].filter((result) => 'error' in result).length;
  const folding = state.late.filter((one) => 'chunks' in (read.get(one.eventId) ?? {}));
  const late = state.late.map((one) => {
    const result = read.get(one.eventId);
    return result && 'error' in result ? { ...one, error: result.error } : one;
  });
  if (folding.length === 0) return { params: before, momentum, late, errors: failed };

  const weights = folding.map(({ examples }) => Math.min(rule.weightCap, examples || 1));
  const totalWeight = weights.reduce((sum, weight) => sum + weight, 0);
  const mean = new Float64Array(layout.size);
  folding.forEach(({ eventId }, i) => {
    addPartial(mean, read.get(eventId) as PartialVector, weights[i]!);
  });
  const share = 1 / totalWeight;
  const step = outerStep(
    state,
    mean.map((value) => value * share),
    rule,
  );
  const params = { layout, values: step.values };
  const digests = { digestBefore: stateDigest(before), digestAfter: stateDigest(params) };
  const ids = folding.map(({ eventId }) => eventId);
  return {
    params,
    momentum: rule.advancesMomentum ? step.momentum : momentum,
    late: late.map((one) =>
      ids.includes(one.eventId) ? { ...one, folded: { round, ...digests } } : one,
    ),
    done: {
      round,
      ...digests,
      workers: sorted(folding.map(({ worker }) => worker)),
      lateRounds: sorted(folding.map((one) => one.round)),
      eventIds: ids,
      learningRate: rule.learningRate,
      momentum: rule.momentum,
      totalWeight,
      weighted: folding.some(({ examples }) => examples !== undefined),
      appliedAt: now,
    },
    errors: failed,
  };
}

/** Computes the outer step of the mean; starts from zero momentum unless the rule advances momentum. */
function outerStep({ params, momentum }: LateState, mean: Float64Array, rule: LateRule) {
  const velocity = rule.advancesMomentum ? momentum : new Float64Array(mean.length);
  const moved = Uint32Array.from({ length: chunkCount(mean.length) }, (_, chunk) => chunk);
  return nesterovStep(params.values, velocity, { mean, moved }, rule);
}

const sorted = <T extends string | number>(items: readonly T[]): T[] =>
  [...new Set(items)].sort((a, b) => (a < b ? -1 : Number(a > b)));

/** Decodes Δ = before - after, or returns the error; for another model in the words of the Python reference. */
function readDelta(
  { payload = '' }: LateGradient,
  layout: Layout,
  limits: ContainerLimits,
): PartialVector | { readonly error: string } {
  const decoded = decodeNstr(payload, { layout, ...limits });
  if (decoded.ok) {
    const { delta } = decoded.value;
    return partialOf({ ...delta, values: flipped(delta.values) });
  }
  const foreign = readNstr(payload, { ...limits, maxValues: 2 * layout.size + 1024 });
  const { code, message } = decoded.issue;
  return {
    error: (foreign.ok && differenceOf(layout, foreign.value.layout)) || `${code}: ${message}`,
  };
}

/** Returns the first difference between our tensors and those of another model, if any. */
function differenceOf({ slots }: Layout, other: Layout): string | undefined {
  const theirs = new Map(other.slots.map((slot) => [slot.name, slot.shape]));
  for (const { name, shape } of slots) {
    const theirShape = theirs.get(name);
    if (!theirShape) return `ValueError: missing parameter '${name}' in model state`;
    if (theirShape.join() !== shape.join())
      return `ValueError: shape of '${name}' is [${theirShape}], not [${shape}]`;
    theirs.delete(name);
  }
  const extra = [...theirs.keys()].sort();
  return extra.length === 0
    ? undefined
    : `ValueError: unexpected parameters in model state: ${extra.join(', ')}`;
}
