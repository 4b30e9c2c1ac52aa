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
import type { Experts, GptSpec } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import { add, crossEntropy, flatten, gather, reshape } from '../graph/verbs.ts';
import type { Architecture, Model, TensorSpec, Weights } from './architecture.ts';
import { byContext, paddedShared } from './experts.ts';
import {
  blockExperts,
  blocks,
  checkWidth,
  norm,
  readOut,
  throughBlocks,
  WEIGHT,
} from './transformer.ts';

export const gpt: Architecture<GptSpec> = {
  build,
  dataForm: ({ vocabulary, context }) => ({ kind: 'tokens', vocabulary, context }),
  check: checkWidth,
};

function build(spec: GptSpec): Model {
  const { vocabulary, width, context, experts } = spec;
  const logits = (weights: Weights, inputs: Value, used?: Experts, balance?: Value[]) => {
    const tokens = inputs.shape[0]! * context;
    const embedded = gather(weights('embedding.tokens.weight'), inputs); // (B, T, D)
    const positioned = add(embedded, weights('embedding.positions.weight'));
    const rows = reshape(positioned, [tokens, width]); // (B * T, D) from here on
    const sizes = { ...spec, experts: used, length: context, causal: true };
    const h = throughBlocks(sizes, weights, rows, balance);
    return readOut(weights, h, { biased: false }); // (B * T, V)
  };
  const predict = (weights: Weights, inputs: Value) => {
    const groups = experts && experts.groups.length > 1 ? experts.groups : [];
    const all = groups.map((group) => logits(weights, inputs, { ...experts!, groups: [group] }));
    return all.length > 0 ? byContext(inputs, all) : logits(weights, inputs, experts);
  };
  const shared: readonly TensorSpec[] = [
    { name: 'embedding.tokens.weight', shape: [vocabulary, width], start: WEIGHT },
    { name: 'embedding.positions.weight', shape: [context, width], start: WEIGHT },
    ...blocks(spec),
    ...norm('norm', width),
    { name: 'head.weight', shape: [width, vocabulary], start: WEIGHT },
  ];
  return {
    tensors: experts ? [...paddedShared(shared), ...blockExperts(spec, experts)] : shared,
    predict,
    losses(weights, { inputs, targets }, isTraining) {
      const balance: Value[] = [];
      const trained = experts?.home ? { ...experts, groups: [experts.home] } : experts;
      const predicted = isTraining
        ? logits(weights, inputs, trained, balance)
        : predict(weights, inputs);
      const losses = reshape(crossEntropy(predicted, flatten(targets)), inputs.shape); // (B, T)
      return balance.reduce(add, losses);
    },
  };
}
