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
  crossEntropy,
  erfGate,
  flatten,
  gather,
  gemm,
  mul,
  reshape,
  split,
  standardize,
  type Transposition,
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

const dense = (name: string, inputs: number, outputs: number): readonly TensorSpec[] => [
  { name: `${name}.weight`, shape: [inputs, outputs], start: WEIGHT },
  { name: `${name}.bias`, shape: [outputs], start: 'zeros' },
];

const block = (at: string, { width, ffn }: GptSpec): readonly TensorSpec[] => [
  ...norm(`${at}.attention.norm`, width),
  ...dense(`${at}.attention.qkv`, width, 3 * width),
  ...dense(`${at}.attention.output`, width, width),
  ...norm(`${at}.feedforward.norm`, width),
  ...dense(`${at}.feedforward.hidden`, width, ffn),
  ...dense(`${at}.feedforward.output`, ffn, width),
];

export const gpt: Architecture<GptSpec> = (spec) => {
  const { vocabulary, width, layers, context } = spec;
  const predict: Model['predict'] = (weights, inputs) => {
    const tokens = inputs.shape[0]! * context;
    const embedded = gather(weights('embedding.tokens.weight'), inputs); // (B, T, D)
    const placed = add(embedded, weights('embedding.positions.weight'));
    let h = reshape(placed, [tokens, width]); // (B * T, D) from here on
    for (let i = 0; i < layers; i++) {
      h = add(h, attention(spec, weights, `blocks.${i}.attention`, h));
      h = add(h, feedforward(weights, `blocks.${i}.feedforward`, h));
    }
    return normed(weights, 'norm', 'head', h); // (B * T, V)
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

/**
 * A linear layer of the normalized rows. The norm's scale and bias are folded into the layer's own, since
 * (z * n + b) @ w = z @ (n * w) + b @ w: every pass over the activations becomes one over the much smaller weights.
 */
function normed(
  weights: Weights,
  normName: string,
  layer: string,
  h: Value,
  scale: Transposition & { readonly beta?: number } = {},
): Value {
  const weight = weights(`${layer}.weight`);
  const [width, columns] = [weight.shape[0]!, weight.shape[1]!];
  const scaled = mul(weight, reshape(weights(`${normName}.weight`), [width, 1]));
  const moved = gemm(reshape(weights(`${normName}.bias`), [1, width]), weight);
  const shift = reshape(moved, [columns]);
  const c = layer === 'head' ? shift : add(shift, weights(`${layer}.bias`));
  return gemm(standardize(h, EPSILON), scaled, { c, ...scale });
}

function attention(spec: GptSpec, weights: Weights, at: string, h: Value): Value {
  const { width, heads, context } = spec;
  const tokens = h.shape[0]!;
  const qkv = normed(weights, `${at}.norm`, `${at}.qkv`, h); // (B * T, 3D)
  const size = width / heads;
  const [q, k, v] = split(qkv, 1, [width, width, width]).map(
    (part) => transpose(reshape(part, [tokens / context, context, heads, size]), [0, 2, 1, 3]), // (B, A, T, d)
  );
  const o = causalAttention(q!, k!, v!, 1 / Math.sqrt(size));
  const joined = reshape(transpose(o, [0, 2, 1, 3]), [tokens, width]);
  return gemm(joined, weights(`${at}.output.weight`), { c: weights(`${at}.output.bias`) });
}

/** gelu(z) = erfGate(z / sqrt 2) / sqrt 2, so both factors go into the neighbouring products. */
function feedforward(weights: Weights, at: string, h: Value): Value {
  const scale = { alpha: HALF_ROOT, beta: HALF_ROOT };
  const hidden = normed(weights, `${at}.norm`, `${at}.hidden`, h, scale); // (B * T, F)
  return gemm(erfGate(hidden), weights(`${at}.output.weight`), {
    c: weights(`${at}.output.bias`),
    alpha: HALF_ROOT,
  });
}
