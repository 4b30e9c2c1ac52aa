/**
 * Muon (Jordan et al., kellerjordan.github.io/posts/muon, 2024) for the hidden matrices, and AdamW for everything else.
 * Both share one learning rate and one decay; orthogonal steps are scaled by their shape for that (arXiv 2502.16982,
 * where `stepSize` is 0.2):
 *
 *   m = b m + (1 - b) g;  u = b m + (1 - b) g
 *   p = p (1 - rate * decay) - rate * stepSize * sqrt(max(rows, columns)) * orthogonal(u)
 *
 * The first moment holds the momentum of the matrices. Their part of the second moment stays 0, so that all moments
 * have the same layout.
 */
import type { MuonSpec } from '../../run/spec/model-spec.ts';
import type { Range } from '../../tensor/partial-vector.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  concat,
  div,
  flatten,
  gemm,
  mul,
  reduceSum,
  reshape,
  split,
  sqrt,
  square,
  sub,
  transpose,
} from '../graph/verbs.ts';
import type { HiddenMatrix, OptimizerRule, UpdateInput } from './optimizer.ts';
import { adamw, learningRateAt } from './optimizer.ts';

/** Newton-Schulz: x <- a x + (b xx' + c (xx')^2) x, whose slope at 0 is as steep as convergence allows. */
const [A, B, C] = [3.4445, -4.775, 2.0315];
const ITERATIONS = 5;
/** Keeps a zero gradient from dividing by zero. */
const NORM_EPSILON = 1e-7;

export const muon: OptimizerRule<MuonSpec> = (spec, matrices) => {
  const rest = adamw({ ...spec, optimizer: 'adamw' }, []);
  if (matrices.length === 0) return rest;
  return {
    ...rest,
    whole: matrices,
    rateCount: rest.rateCount + 1,
    rates: (step, seen) => [...rest.rates(step, seen), learningRateAt(spec.schedule, step)],
    update: ({ params, gradient, moments, rates, factor, from }) => {
      const pieces = cutPieces(matrices, { from, to: from + params.shape[0]! });
      const sizes = pieces.map(({ size }) => size);
      const [p, g, ...m] = [params, gradient, ...moments].map((vector) => split(vector, 0, sizes));
      const updated = pieces.map(({ matrix }, i) => {
        const pieceInput = {
          params: p![i]!,
          gradient: g![i]!,
          moments: m.map((parts) => parts[i]!),
        };
        const input = { ...pieceInput, rates, factor, from };
        return matrix ? updateMatrix(spec, matrix, input) : rest.update(input);
      });
      return {
        params: join(updated.map((piece) => piece.params)),
        moments: m.map((_, k) => join(updated.map((piece) => piece.moments[k]!))),
      };
    },
  };
};

interface Piece {
  readonly size: number;
  readonly matrix?: HiddenMatrix;
}

/** Returns the matrices inside a range and the ranges between them, in order. */
function cutPieces(matrices: readonly HiddenMatrix[], { from, to }: Range): readonly Piece[] {
  const pieces: Piece[] = [];
  let at = from;
  for (const matrix of matrices.filter((one) => one.from >= from && one.to <= to)) {
    if (matrix.from > at) pieces.push({ size: matrix.from - at });
    pieces.push({ size: matrix.to - matrix.from, matrix });
    at = matrix.to;
  }
  if (to > at) pieces.push({ size: to - at });
  return pieces;
}

const join = ([first, ...others]: readonly Value[]): Value => concat([first!, ...others], 0);

function updateMatrix(
  { momentum, stepSize }: MuonSpec,
  { rows, columns, abreast }: HiddenMatrix,
  { params, gradient, moments: [first, second], rates, factor }: UpdateInput,
): { readonly params: Value; readonly moments: readonly Value[] } {
  const [keep, rate] = rates.slice(-2);
  const share = mul(gradient, factor ? mul(factor, 1 - momentum) : 1 - momentum);
  const m = add(mul(first!, momentum), share);
  const ahead = reshape(add(mul(m, momentum), share), [rows, columns]);
  const width = columns / abreast;
  const [left, ...others] = split(ahead, 1, new Array<number>(abreast).fill(width));
  const orthogonalized = concat([orthogonal(left!), ...others.map(orthogonal)], 1);
  const scale = mul(rate!, stepSize * Math.sqrt(Math.max(rows, width)));
  return {
    params: sub(mul(params, keep!), mul(flatten(orthogonalized), scale)),
    moments: [m, second!],
  };
}

/**
 * Returns approximately the closest matrix with orthonormal columns (rows, if fewer): singular values end between about
 * 0.7 and 1.2. It works on the upright form, whose products onnxruntime divides by rows only, so that the bits do not
 * depend on the number of threads.
 */
export function orthogonal(matrix: Value): Value {
  const [rows, columns] = matrix.shape;
  if (rows! < columns!) return transpose(orthogonal(transpose(matrix)));
  let x = div(matrix, add(sqrt(reduceSum(square(matrix))), NORM_EPSILON));
  for (let i = 0; i < ITERATIONS; i++) {
    const inner = gemm(x, x, { transA: true });
    const polynomial = gemm(inner, inner, { c: inner, alpha: C, beta: B });
    x = gemm(x, polynomial, { c: x, beta: A });
  }
  return x;
}
