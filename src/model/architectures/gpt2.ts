/**
 * GPT-2 (Radford et al., 2019) with the names and orientation of Hugging Face's files, whose linear layers are stored
 * [in, out]. Apart from names and biases it equals `gpt.ts`, the architecture of runs without a base. No dropout.
 *
 *   h = transformer.wte.weight[x] + transformer.wpe.weight[0 .. T - 1]          (B * T, D)
 *   for layer i, with names below `transformer.h.<i>.`:
 *     q, k, v = the thirds of norm(h; ln_1) through attn.c_attn
 *     h = h + (attention of q over k and v) through attn.c_proj
 *     h = h + activation(norm(h; ln_2) through mlp.c_fc) through mlp.c_proj
 *   logits = norm(h; transformer.ln_f) @ lm_head.weight^T, or @ transformer.wte.weight^T when tied
 */
import { ConfigError } from '../../base/errors.ts';
import type { Gpt2Spec } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  erf,
  gather,
  mul,
  relu,
  reshape,
  slice,
  split,
  square,
  standardize,
  tanh,
  transpose,
} from '../graph/verbs.ts';
import type { TensorSpec } from './architecture.ts';
import { type Decoder, decoderFrom, type LinearLayer, linearTensors } from './decoder.ts';
import { checkWidth } from './transformer.ts';

const TOKENS = 'transformer.wte.weight';
const POSITIONS = 'transformer.wpe.weight';

/** Throws a ConfigError if the context exceeds the model's positions, or the heads do not divide the width. */
export function checkGpt2(spec: Gpt2Spec): void {
  if (spec.context > spec.positions) {
    throw new ConfigError(
      'model/size',
      `model.context ${spec.context} is longer than the ${spec.positions} positions of the model`,
    );
  }
  checkWidth(spec);
}

/** Builds the decoder with these sizes. */
export function gpt2(spec: Gpt2Spec): Decoder {
  const { positions, width, heads, normEpsilon, deviation } = spec;
  const size = width / heads;
  const linearsOf = (at: string) => blockLinears(spec, at);
  const norm = (name: string): readonly TensorSpec[] => [
    { name: `${name}.weight`, shape: [width], start: 'ones' },
    { name: `${name}.bias`, shape: [width], start: 'zeros' },
  ];
  return decoderFrom(spec, {
    blocks: 'transformer.h',
    tokens: TOKENS,
    cached: { heads, size },
    window: 0,
    others: [
      { name: POSITIONS, shape: [positions, width], start: { deviation } },
      ...norm('transformer.ln_f'),
    ],
    tensorsOf(at) {
      const { thirds, output, hidden, back } = linearsOf(at);
      const [weight, ...bias] = linearTensors(thirds, deviation);
      return [
        ...norm(`${at}.ln_1`),
        ...norm(`${at}.ln_2`),
        { ...weight!, abreast: 3 },
        ...bias,
        ...[output, hidden, back].flatMap((layer) => linearTensors(layer, deviation)),
      ];
    },
    linearsOf,
    open({ weights, linear }, inputs, cache) {
      const length = inputs.shape[1]!;
      const embedded = gather(weights(TOKENS), inputs);
      const table = weights(POSITIONS);
      const positional = cache ? gather(table, cache.positions) : slice(table, 0, 0, length);
      const normed = (name: string, h: Value): Value =>
        add(mul(standardize(h, normEpsilon), weights(`${name}.weight`)), weights(`${name}.bias`));
      return {
        embedded: add(embedded, positional),
        heads(at, rows) {
          const projected = linear(linearsOf(at).thirds, normed(`${at}.ln_1`, rows));
          const parted = [rows.shape[0]! / length, length, heads, size];
          const [q, k, v] = split(projected, 1, [width, width, width]).map((part) =>
            transpose(reshape(part, parted), [0, 2, 1, 3]),
          );
          return { q: q!, k: k!, v: v! };
        },
        feedforward(at, rows) {
          const { hidden, back } = linearsOf(at);
          const u = linear(hidden, normed(`${at}.ln_2`, rows));
          return linear(back, activations[spec.activation](u));
        },
        lastNorm: (rows) => normed('transformer.ln_f', rows),
      };
    },
  });
}

function blockLinears({ width, ffn }: Gpt2Spec, at: string) {
  const linear = (part: string, inputs: number, outputs: number): LinearLayer => ({
    name: `${at}.${part}`,
    inputs,
    outputs,
    bias: true,
    stored: 'in-out',
  });
  return {
    thirds: linear('attn.c_attn', width, 3 * width),
    output: linear('attn.c_proj', width, width),
    hidden: { ...linear('mlp.c_fc', width, ffn), inner: 'outputs' as const },
    back: { ...linear('mlp.c_proj', ffn, width), inner: 'inputs' as const },
  };
}

const activations: { readonly [A in Gpt2Spec['activation']]: (z: Value) => Value } = {
  gelu: (z) => mul(mul(z, 0.5), add(erf(mul(z, Math.SQRT1_2)), 1)),
  'gelu-tanh': (z) => {
    const inner = mul(mul(z, add(mul(square(z), 0.044715), 1)), Math.sqrt(2 / Math.PI));
    return mul(mul(z, 0.5), add(tanh(inner), 1));
  },
  relu,
};
