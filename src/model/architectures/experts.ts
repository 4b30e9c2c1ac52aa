/**
 * Mixture of experts in place of a feed-forward layer (arXiv 2101.03961, 2401.04088). All experts compute every token
 * and a mask selects: shapes stay static, and the cost grows with the number of experts.
 *
 *   r = u @ R^T, R the router rows of the experts; p = softmax(r)                    (N, E)
 *   m = 1 for the k experts with the largest r, else 0
 *   g = p * m for k = 1; p * m / sum(p * m) for k = 2
 *   y = sum over experts e of g[e] * expert_e(u)
 *
 * With groups, gpt computes logits with each group's experts alone and weighs them by the tokens so far (`byContext`).
 * A worker of a group trains its experts alone.
 *
 * Load balancing, in training only: for the experts S of each group, with q = p / sum of p over S and f[e] the share of
 * tokens whose best expert in S is e, adds balance * (|S| * sum over S of f[e] * mean(q[e]) - 1) / groups per layer.
 * It never moves tokens between groups.
 *
 * Tensors of expert e begin with `experts.<e>.`, its router rows included, and fill whole chunks of the parameter
 * vector of their own: a round of one group moves no value of another, and merging groups is concatenation.
 */
import { ConfigError } from '../../base/errors.ts';
import { type Experts, MOST_EXPERTS } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  argMax,
  concat,
  constantLike,
  div,
  exp,
  flatten,
  gemm,
  log,
  logSoftmax,
  mul,
  oneHot,
  pick,
  reduceMean,
  reduceSum,
  reshape,
  slice,
  softmax,
  sub,
} from '../graph/verbs.ts';
import type { TensorSpec, Weights } from './architecture.ts';
import { padding } from './slices.ts';

/** Added to the router outputs of excluded experts; their softmax weight underflows to zero. */
const EXCLUDED = -1e9;

/** Returns the numbers of all experts, ascending. */
export const expertNumbers = ({ groups }: Pick<Experts, 'groups'>): readonly number[] =>
  groups.flat().sort((a, b) => a - b);

/** Returns the prefix of all tensor names of an expert. */
export const expertPrefix = (expert: number): string => `experts.${expert}.`;

/** Returns the expert that a tensor belongs to by its name; -1 for a shared tensor. */
export const expertIndexOf = (name: string): number =>
  Number(/^experts\.(\d+)\./.exec(name)?.[1] ?? -1);

/** Throws a ConfigError if an expert is in two groups, or the numbers are impossible. */
export function checkExperts(experts: Experts | undefined, hasTiers: boolean): void {
  if (!experts) return;
  const numbers = expertNumbers(experts);
  const isGood = numbers.every((n, i) => Number.isSafeInteger(n) && n >= 0 && n !== numbers[i - 1]);
  if (!isGood || numbers.length === 0 || numbers.at(-1)! >= MOST_EXPERTS) {
    throw new ConfigError(
      'model/experts',
      `model.experts needs numbers from 0 to ${MOST_EXPERTS - 1}, each in one group`,
    );
  }
  if (!hasTiers) return;
  throw new ConfigError('model/experts', 'a model with tiers cannot have experts', {
    hint: 'leave out tiers or experts',
  });
}

/** Returns the tensors of all experts; `tensorsOf` returns those of one layer of an expert below a prefix. */
export const expertTensors = (
  experts: Experts,
  layers: readonly string[],
  { width, start }: { readonly width: number; readonly start: TensorSpec['start'] },
  tensorsOf: (at: string) => readonly TensorSpec[],
): readonly TensorSpec[] =>
  expertNumbers(experts).flatMap((expert) => {
    const names = layers.map((layer) => `${expertPrefix(expert)}${layer}`);
    const tensors = names.flatMap((at) => [
      { name: `${at}.router.weight`, shape: [width], start },
      ...tensorsOf(at),
    ]);
    const numbered = tensors.map((tensor) => ({ ...tensor, slice: expert + 1 }));
    return [...numbered, ...padding(numbered, expert + 1, `${expertPrefix(expert)}padding`)];
  });

/** Returns the shared tensors with padding to whole chunks after them. */
export const paddedShared = (tensors: readonly TensorSpec[]): readonly TensorSpec[] => [
  ...tensors,
  ...padding(tensors, 0, 'padding'),
];

/** Rows of a feed-forward layer, and where its load-balancing loss goes. */
export interface MixtureInput {
  readonly weights: Weights;
  /** Name of the layer below the prefix of each expert. */
  readonly layer: string;
  /** Normalized rows (N, D). */
  readonly rows: Value;
  /** Receives the load-balancing loss, a scalar; absent outside of training. */
  readonly balance?: Value[] | undefined;
}

/** Returns the mixture (N, D) of the experts' outputs; `apply` computes one expert's output for all rows. */
export function mixture(
  experts: Experts,
  { weights, layer, rows, balance }: MixtureInput,
  apply: (at: string) => Value,
): Value {
  const numbers = expertNumbers(experts);
  const names = numbers.map((expert) => `${expertPrefix(expert)}${layer}`);
  const width = rows.shape[1]!;
  const routers = names.map((at) => reshape(weights(`${at}.router.weight`), [1, width]));
  const scores = gemm(rows, concat(routers as [Value, ...Value[]], 0), { transB: true });
  const gates = gatesOf(scores, Math.min(experts.perToken, numbers.length));
  const parts = names.map((at, i) => mul(apply(at), slice(gates, 1, i, i + 1)));
  balance?.push(mul(balanceOf(experts, numbers, scores), experts.balance));
  return parts.reduce(add);
}

/**
 * Returns log shares (B * T, V) of the next token from the logits of each group, weighted by the group's share of the
 * likelihood of the tokens so far (arXiv 2108.05036): no router has to compare experts of different groups.
 */
export function byContext(inputs: Value, logits: readonly Value[]): Value {
  const [batch, length] = inputs.shape as [number, number];
  const rows = batch * length;
  const first = slice(inputs, 1, 0, 1);
  // the last token has no next one, and none is needed there
  const next = length > 1 ? concat([slice(inputs, 1, 1, length), first], 1) : first;
  const isBefore = Array.from({ length: length * length }, (_, i) =>
    i % length < Math.floor(i / length) ? 1 : 0,
  );
  const shares = logits.map(logSoftmax);
  const evidence = shares.map((each) => {
    const before = constantLike(each, [length, length], isBefore);
    const sums = gemm(reshape(pick(each, flatten(next)), [batch, length]), before, {
      transB: true,
    });
    return reshape(sums, [rows, 1]);
  });
  const posterior = softmax(concat(evidence as [Value, ...Value[]], 1));
  const parts = shares.map((each, i) => mul(exp(each), slice(posterior, 1, i, i + 1)));
  return log(add(parts.reduce(add), LEAST_SHARE));
}

/** Added to shares before their logarithm, which would be infinite for one that underflows. */
const LEAST_SHARE = 1e-30;

/** Returns each row's best column as a mask (N, E). */
function best(scores: Value): Value {
  const [rows, columns] = scores.shape;
  return oneHot(reshape(argMax(scores, 1), [rows!]), columns!, scores.dtype);
}

function gatesOf(scores: Value, perToken: number): Value {
  const shares = softmax(scores);
  const first = best(scores);
  if (perToken === 1) return mul(shares, first);
  const second = best(add(scores, mul(first, EXCLUDED)));
  const chosen = mul(shares, add(first, second));
  return div(chosen, reduceSum(chosen, [1], true));
}

function balanceOf({ groups }: Experts, numbers: readonly number[], scores: Value): Value {
  const losses = groups.map((group) => {
    const isIn = numbers.map((number) => (group.includes(number) ? 0 : EXCLUDED));
    const inGroup = add(scores, constantLike(scores, [1, numbers.length], isIn));
    const tokens = reduceMean(best(inGroup), [0]);
    const shares = reduceMean(softmax(inGroup), [0]);
    return sub(mul(reduceSum(mul(tokens, shares)), group.length), 1);
  });
  return div(losses.reduce(add), groups.length);
}
