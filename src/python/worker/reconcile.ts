/**
 * Late gradients folded into a state: one outer step over their weighted mean. The Python reference lets that step move the outer
 * momentum like a round of its own; ours leaves momentum alone, so that it advances once per round.
 */
import { nesterovStep } from '../../consensus/outer/nesterov.ts';
import type { Layout, Params, Vector } from '../../tensor/params.ts';
import { stateDigest } from '../../tensor/params.ts';
import {
  addPartial,
  chunkCount,
  type PartialVector,
  partialOf,
} from '../../tensor/partial-vector.ts';
import type { ContainerLimits } from '../codec/container.ts';
import { decodeNstr } from '../codec/nstr.ts';
import { readNstr } from '../codec/payload.ts';
import { isPending, type LateGradient, type Reconciliation } from '../wire/late-record.ts';
import { flipped } from '../wire/sign.ts';

export interface LateRule {
  /** `deferred` folds them in, `discard` only remembers them. */
  readonly strategy: 'deferred' | 'discard';
  readonly learningRate: number;
  readonly momentum: number;
  /** As the Python reference does. */
  readonly advancesMomentum: boolean;
  /** No gradient weighs more examples than this. */
  readonly weightCap: number;
}

export interface LateState {
  readonly params: Params;
  readonly momentum: Vector;
  readonly late: readonly LateGradient[];
}

export interface LateFold extends LateState {
  /** Absent when nothing was folded in. */
  readonly done?: Reconciliation;
  readonly errors: number;
}

export interface FoldingOptions {
  /** The round that is about to begin. */
  readonly round: number;
  readonly rule: LateRule;
  readonly limits: ContainerLimits;
  /** Unix seconds. */
  readonly now: number;
}

/** Folds in what is pending, in the order of the records; what cannot be read becomes an error and is never tried again. */
export function reconcile(state: LateState, options: FoldingOptions): LateFold {
  const { rule, round, now } = options;
  const { params: before, momentum } = state;
  const { layout } = before;
  if (rule.strategy === 'discard') return { params: before, momentum, late: state.late, errors: 0 };
  const read = new Map<string, PartialVector | { readonly error: string }>();
  for (const one of state.late) {
    if (isPending(one)) read.set(one.eventId, readDelta(one, layout, options.limits));
  }
  const failed = [...read.values()].filter((found) => 'error' in found).length;
  const folding = state.late.filter((one) => 'chunks' in (read.get(one.eventId) ?? {}));
  const late = state.late.map((one) => {
    const found = read.get(one.eventId);
    return found && 'error' in found ? { ...one, error: found.error } : one;
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

/** The step of the mean; from momentum zero where it must not count as a round. */
function outerStep({ params, momentum }: LateState, mean: Float64Array, rule: LateRule) {
  const velocity = rule.advancesMomentum ? momentum : new Float64Array(mean.length);
  const moved = Uint32Array.from({ length: chunkCount(mean.length) }, (_, chunk) => chunk);
  return nesterovStep(params.values, velocity, { mean, moved }, rule);
}

const sorted = <T extends string | number>(items: readonly T[]): T[] =>
  [...new Set(items)].sort((a, b) => (a < b ? -1 : Number(a > b)));

/** Δ = before - after, or what is wrong with the payload: of another model in the words of the Python reference. */
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

/** The first way in which another model's tensors are not ours. */
function differenceOf({ slots }: Layout, other: Layout): string | undefined {
  const theirs = new Map(other.slots.map((slot) => [slot.name, slot.shape]));
  for (const { name, shape } of slots) {
    const found = theirs.get(name);
    if (!found) return `ValueError: missing parameter '${name}' in model state`;
    if (found.join() !== shape.join())
      return `ValueError: shape of '${name}' is [${found}], not [${shape}]`;
    theirs.delete(name);
  }
  const extra = [...theirs.keys()].sort();
  return extra.length === 0
    ? undefined
    : `ValueError: unexpected parameters in model state: ${extra.join(', ')}`;
}
