/**
 * A decoder-only transformer for next-token prediction (Vaswani et al., arXiv 1706.03762; pre-LayerNorm, arXiv
 * 2002.04745; GELU, arXiv 1606.08415). No dropout.
 *
 * Sizes: B sequences, T = context tokens each, V = vocabulary, D = width, A = heads, d = D / A, F = ffn.
 * Every weight is stored [in, out], so that a linear layer is `x @ weight + bias`.
 *
 *   h = embedding.tokens.weight[x] + embedding.positions.weight              (B, T, D)
 *   for block i = 0 .. layers - 1, with names below `blocks.<i>.`:
 *     u = norm(h; attention.norm)
 *     q, k, v = the first, second and third D columns of u @ attention.qkv.weight + attention.qkv.bias
 *     head a takes columns a*d .. (a+1)*d - 1 of q, of k and of v
 *     s[t, j] = q[t] . k[j] / sqrt(d) for j <= t, minus infinity for j > t; o = softmax(s) @ v; heads side by side
 *     h = h + o @ attention.output.weight + attention.output.bias
 *     u = norm(h; feedforward.norm)
 *     h = h + gelu(u @ feedforward.hidden.weight + feedforward.hidden.bias) @ feedforward.output.weight
 *           + feedforward.output.bias
 *   logits = norm(h; norm) @ head.weight                                     (B, T, V), no bias, not tied
 *   loss = mean over all B*T positions of -log softmax(logits)[y], y the next token
 *
 *   norm(z; n) = (z - mean) / sqrt(variance + 1e-5) * n.weight + n.bias, over the D values of one token, with the
 *   variance divided by D; gelu(z) = z / 2 * (1 + erf(z / sqrt 2)).
 *
 * Tensors: embedding.tokens.weight [V, D], embedding.positions.weight [T, D], and per block attention.norm.{weight,
 * bias} [D], attention.qkv.weight [D, 3D], attention.qkv.bias [3D], attention.output.weight [D, D],
 * attention.output.bias [D], feedforward.norm.{weight, bias} [D], feedforward.hidden.weight [D, F],
 * feedforward.hidden.bias [F], feedforward.output.weight [F, D], feedforward.output.bias [D]; then norm.{weight, bias}
 * [D] and head.weight [D, V]. The flat vector holds them row by row, sorted by code point of the name.
 */
import type { GptSpec } from '../../run/model-spec.ts';
import type { Value } from '../graph/value.ts';
import {
  add,
  causalAttention,
  checkpoint,
  crossEntropy,
  erfGate,
  flatten,
  gather,
  gemm,
  mul,
  reshape,
  split,
  standardize,
  transpose,
} from '../graph/verbs.ts';
import type { Architecture, Model, TensorSpec, Weights } from './architecture.ts';

const EPSILON = 1e-5;
const WEIGHT = { deviation: 0.02 };
const HALF_ROOT = Math.SQRT1_2;

const norm = (name: string, width: number): readonly TensorSpec[] => [
  { name: `${name}.weight`, shape: [width], start: 'ones' },
  { name: `${name}.bias`, shape: [width], start: 'zeros' },
];

const dense = (
  name: string,
  inputs: number,
  outputs: number,
  abreast = 1,
): readonly TensorSpec[] => [
  { name: `${name}.weight`, shape: [inputs, outputs], start: WEIGHT, abreast },
  { name: `${name}.bias`, shape: [outputs], start: 'zeros' },
];

const block = (at: string, { width, ffn }: GptSpec): readonly TensorSpec[] => [
  ...norm(`${at}.attention.norm`, width),
  ...dense(`${at}.attention.qkv`, width, 3 * width, 3),
  ...dense(`${at}.attention.output`, width, width),
  ...norm(`${at}.feedforward.norm`, width),
  ...dense(`${at}.feedforward.hidden`, width, ffn).map((one, i) => ({ ...one, inner: 1 - i })),
  ...dense(`${at}.feedforward.output`, ffn, width).map((one, i) =>
    i === 0 ? { ...one, inner: 0 } : one,
  ),
];

export const gpt: Architecture<GptSpec> = (spec) => {
  const { vocabulary, width, layers, context } = spec;
  const predict: Model['predict'] = (weights, inputs) => {
    const tokens = inputs.shape[0]! * context;
    const embedded = gather(weights('embedding.tokens.weight'), inputs); // (B, T, D)
    const placed = add(embedded, weights('embedding.positions.weight'));
    let h = reshape(placed, [tokens, width]); // (B * T, D) from here on
    for (let i = 0; i < layers; i++) {
      h = checkpoint(h, (input) => {
        const attended = add(input, attention(spec, weights, `blocks.${i}.attention`, input));
        return add(attended, feedforward(weights, `blocks.${i}.feedforward`, attended));
      });
    }
    const { weight, bias } = foldNorm(weights, 'norm', 'head', false);
    return gemm(standardize(h, EPSILON), weight, { c: bias }); // (B * T, V)
  };
  return {
    tensors: [
      { name: 'embedding.tokens.weight', shape: [vocabulary, width], start: WEIGHT },
      { name: 'embedding.positions.weight', shape: [context, width], start: WEIGHT },
      ...Array.from({ length: layers }, (_, i) => block(`blocks.${i}`, spec)).flat(),
      ...norm('norm', width),
      { name: 'head.weight', shape: [width, vocabulary], start: WEIGHT },
    ],
    predict,
    losses: (weights, { inputs, targets }) =>
      reshape(crossEntropy(predict(weights, inputs), flatten(targets)), inputs.shape), // (B, T)
  };
};

/** A linear layer that reads rows through a norm: what to multiply the standardized rows with, and what to add. */
interface Folded {
  readonly weight: Value;
  readonly bias: Value;
}

/**
 * Folds a norm's scale and bias into the layer behind it, since (z * n + b) @ w = z @ (n * w) + b @ w: every pass over the
 * activations becomes one over the much smaller weights.
 */
function foldNorm(weights: Weights, norm: string, layer: string, biased: boolean): Folded {
  const weight = weights(`${layer}.weight`);
  const [width, columns] = [weight.shape[0]!, weight.shape[1]!];
  const moved = gemm(reshape(weights(`${norm}.bias`), [1, width]), weight);
  const shift = reshape(moved, [columns]);
  return {
    weight: mul(weight, reshape(weights(`${norm}.weight`), [width, 1])),
    bias: biased ? add(shift, weights(`${layer}.bias`)) : shift,
  };
}

function attention(spec: GptSpec, weights: Weights, at: string, h: Value): Value {
  const { width, heads, context } = spec;
  const tokens = h.shape[0]!;
  const size = width / heads;
  const rows = standardize(h, EPSILON);
  const { weight, bias } = foldNorm(weights, `${at}.norm`, `${at}.qkv`, true);
  // three products instead of one: cutting the weights apart is cheaper than cutting the activations
  const thirds = [width, width, width];
  const biases = split(bias, 0, thirds);
  const [q, k, v] = split(weight, 1, thirds).map((part, i) => {
    const projected = gemm(rows, part, { c: biases[i] });
    const parted = reshape(projected, [tokens / context, context, heads, size]);
    return transpose(parted, [0, 2, 1, 3]); // (B, A, T, d)
  });
  const o = causalAttention(q!, k!, v!, 1 / Math.sqrt(size));
  const joined = reshape(transpose(o, [0, 2, 1, 3]), [tokens, width]);
  return gemm(joined, weights(`${at}.output.weight`), { c: weights(`${at}.output.bias`) });
}

/** gelu(z) = erfGate(z / sqrt 2) / sqrt 2, so both factors go into the neighbouring products. */
function feedforward(weights: Weights, at: string, h: Value): Value {
  const { weight, bias } = foldNorm(weights, `${at}.norm`, `${at}.hidden`, true);
  const hidden = gemm(standardize(h, EPSILON), weight, {
    c: mul(bias, HALF_ROOT),
    alpha: HALF_ROOT,
  }); // (B * T, F)
  return gemm(erfGate(hidden), weights(`${at}.output.weight`), {
    c: weights(`${at}.output.bias`),
    alpha: HALF_ROOT,
  });
}
