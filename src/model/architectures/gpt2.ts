/**
 * GPT-2 (Radford et al., 2019) with the names and orientation of Hugging Face's files, whose linear layers are stored
 * [in, out]. Apart from names and biases it is `gpt.ts`, which runs without a base train. No dropout.
 *
 *   h = transformer.wte.weight[x] + transformer.wpe.weight[0 .. T - 1]          (B * T, D)
 *   for layer i, with names below `transformer.h.<i>.`:
 *     q, k, v = the thirds of norm(h; ln_1) through attn.c_attn
 *     h = h + (attention of q over k and v) through attn.c_proj
 *     h = h + activation(norm(h; ln_2) through mlp.c_fc) through mlp.c_proj
 *   logits = norm(h; transformer.ln_f) @ lm_head.weight^T, or @ transformer.wte.weight^T when tied
 */
import type { Gpt2Spec } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  checkpoint,
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
import type { TensorSpec, Weights } from './architecture.ts';
import {
  attend,
  type Decoder,
  type Heads,
  type Layers,
  type LinearLayer,
  linearTensors,
  type Scoring,
} from './decoder.ts';

const TOKENS = 'transformer.wte.weight';
const POSITIONS = 'transformer.wpe.weight';
const HEAD = 'lm_head.weight';

function linearsOf({ width, ffn }: Gpt2Spec, at: string) {
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

function tensorsOf(spec: Gpt2Spec): readonly TensorSpec[] {
  const { vocabulary, positions, width, deviation } = spec;
  const table = (name: string, rows: number): TensorSpec => ({
    name,
    shape: [rows, width],
    start: { deviation },
  });
  const norm = (name: string): readonly TensorSpec[] => [
    { name: `${name}.weight`, shape: [width], start: 'ones' },
    { name: `${name}.bias`, shape: [width], start: 'zeros' },
  ];
  const blocks = blockNames(spec).flatMap((at) => {
    const { thirds, output, hidden, back } = linearsOf(spec, at);
    const [weight, ...bias] = linearTensors(thirds, deviation);
    return [
      ...norm(`${at}.ln_1`),
      ...norm(`${at}.ln_2`),
      { ...weight!, abreast: 3 },
      ...bias,
      ...[output, hidden, back].flatMap((layer) => linearTensors(layer, deviation)),
    ];
  });
  return [
    table(TOKENS, vocabulary),
    table(POSITIONS, positions),
    ...blocks,
    ...norm('transformer.ln_f'),
    ...(spec.tied ? [] : [table(HEAD, vocabulary)]),
  ];
}

const blockNames = ({ layers }: Gpt2Spec): readonly string[] =>
  Array.from({ length: layers }, (_, i) => `transformer.h.${i}`);

/** The decoder of these sizes. */
export const gpt2 = (spec: Gpt2Spec): Decoder => ({
  vocabulary: spec.vocabulary,
  layers: spec.layers,
  cached: { heads: spec.heads, size: spec.width / spec.heads },
  tensors: tensorsOf(spec),
  linears: blockNames(spec).flatMap((at) => Object.values(linearsOf(spec, at))),
  head: spec.tied ? TOKENS : HEAD,
  hidden(layers, inputs, past) {
    const { weights } = layers;
    const [batch, length] = inputs.shape;
    const embedded = gather(weights(TOKENS), inputs); // (B, T, D)
    const table = weights(POSITIONS);
    const places = past ? gather(table, past.positions) : slice(table, 0, 0, length!);
    const placed = add(embedded, places);
    let h = reshape(placed, [batch! * length!, spec.width]);
    blockNames(spec).forEach((at, layer) => {
      h = checkpoint(h, (rows) => {
        const see = attend.bind(undefined, past, layer);
        const own = { at, length: length!, rows, attend: see };
        const attended = add(rows, attention(spec, layers, own));
        return add(attended, feedforward(spec, layers, at, attended));
      });
    });
    return norm(spec, weights, 'transformer.ln_f', h);
  },
});

const norm = ({ normEpsilon }: Gpt2Spec, weights: Weights, name: string, h: Value): Value =>
  add(mul(standardize(h, normEpsilon), weights(`${name}.weight`)), weights(`${name}.bias`));

interface AttentionInput {
  readonly at: string;
  readonly length: number;
  attend(heads: Heads, scoring: Scoring): Value;
  /** (B * T, D) */
  readonly rows: Value;
}

function attention(
  spec: Gpt2Spec,
  { weights, linear }: Layers,
  { at, length, rows, attend }: AttentionInput,
): Value {
  const { width, heads } = spec;
  const size = width / heads;
  const { thirds, output } = linearsOf(spec, at);
  const projected = linear(thirds, norm(spec, weights, `${at}.ln_1`, rows));
  const [q, k, v] = split(projected, 1, [width, width, width]).map((part) =>
    transpose(reshape(part, [rows.shape[0]! / length, length, heads, size]), [0, 2, 1, 3]),
  );
  const o = attend({ q: q!, k: k!, v: v! }, { scale: 1 / Math.sqrt(size), window: 0 });
  return linear(output, reshape(transpose(o, [0, 2, 1, 3]), rows.shape));
}

function feedforward(spec: Gpt2Spec, { weights, linear }: Layers, at: string, h: Value): Value {
  const { hidden, back } = linearsOf(spec, at);
  const u = linear(hidden, norm(spec, weights, `${at}.ln_2`, h));
  return linear(back, activations[spec.activation](u));
}

const activations: { readonly [A in Gpt2Spec['activation']]: (z: Value) => Value } = {
  gelu: (z) => mul(mul(z, 0.5), add(erf(mul(z, Math.SQRT1_2)), 1)),
  'gelu-tanh': (z) => {
    const inner = mul(mul(z, add(mul(square(z), 0.044715), 1)), Math.sqrt(2 / Math.PI));
    return mul(mul(z, 0.5), add(tanh(inner), 1));
  },
  relu,
};
