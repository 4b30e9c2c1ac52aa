/**
 * The decoder of Llama (arXiv 2302.13971) and its relatives: SmolLM2, Llama 3, Mistral (an attention window), Qwen2
 * (bias on queries, keys and values) and Qwen3 (a norm on queries and keys). Tensors have the names, shapes and
 * orientation [out, in] of Hugging Face's files. No dropout.
 *
 * Sizes: B sequences, T = context tokens each, D = width, A = heads, K = keyValueHeads, d = headSize.
 *
 *   h = model.embed_tokens.weight[x]                                            (B * T, D)
 *   for layer i, with names below `model.layers.<i>.`:
 *     u = rmsNorm(h; input_layernorm)
 *     q, k, v = u through self_attn.{q,k,v}_proj; q, k through self_attn.{q,k}_norm if there is one, then rotated
 *     h = h + (attention of q over k and v) through self_attn.o_proj
 *     u = rmsNorm(h; post_attention_layernorm)
 *     h = h + (silu(u through mlp.gate_proj) * (u through mlp.up_proj)) through mlp.down_proj
 *   logits = rmsNorm(h; model.norm) @ lm_head.weight^T, or @ model.embed_tokens.weight^T when tied
 */
import type { LlamaSpec, RopeScaling } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  checkpoint,
  gather,
  reshape,
  rmsNorm,
  rotary,
  swiglu,
  transpose,
} from '../graph/verbs.ts';
import type { TensorSpec } from './architecture.ts';
import {
  attend,
  type Decoder,
  type Heads,
  type Layers,
  type LinearLayer,
  linearTensors,
  type Past,
  type Scoring,
} from './decoder.ts';

const EMBEDDING = 'model.embed_tokens.weight';
const HEAD = 'lm_head.weight';

/** The layers of one block by what they do. */
function linearsOf(spec: LlamaSpec, at: string) {
  const { width, heads, keyValueHeads, headSize, ffn, bias } = spec;
  const linear = (part: string, inputs: number, outputs: number, biased: boolean): LinearLayer => ({
    name: `${at}.${part}`,
    inputs,
    outputs,
    bias: biased,
    stored: 'out-in',
  });
  const { queryKeyValue, attentionOutput, feedforward } = bias;
  return {
    query: linear('self_attn.q_proj', width, heads * headSize, queryKeyValue),
    key: linear('self_attn.k_proj', width, keyValueHeads * headSize, queryKeyValue),
    value: linear('self_attn.v_proj', width, keyValueHeads * headSize, queryKeyValue),
    output: linear('self_attn.o_proj', heads * headSize, width, attentionOutput),
    gate: { ...linear('mlp.gate_proj', width, ffn, feedforward), inner: 'outputs' as const },
    up: { ...linear('mlp.up_proj', width, ffn, feedforward), inner: 'outputs' as const },
    down: { ...linear('mlp.down_proj', ffn, width, feedforward), inner: 'inputs' as const },
  };
}

function tensorsOf(spec: LlamaSpec): readonly TensorSpec[] {
  const { vocabulary, width, headSize, deviation } = spec;
  const table = { shape: [vocabulary, width], start: { deviation } } as const;
  const norm = (name: string, size = width): TensorSpec => ({
    name: `${name}.weight`,
    shape: [size],
    start: 'ones',
  });
  const blocks = blockNames(spec).flatMap((at) => [
    norm(`${at}.input_layernorm`),
    norm(`${at}.post_attention_layernorm`),
    ...(spec.queryKeyNorm
      ? [norm(`${at}.self_attn.q_norm`, headSize), norm(`${at}.self_attn.k_norm`, headSize)]
      : []),
    ...Object.values(linearsOf(spec, at)).flatMap((layer) => linearTensors(layer, deviation)),
  ]);
  const head = spec.tied ? [] : [{ name: HEAD, ...table }];
  return [{ name: EMBEDDING, ...table }, ...blocks, norm('model.norm'), ...head];
}

const blockNames = ({ layers }: LlamaSpec): readonly string[] =>
  Array.from({ length: layers }, (_, i) => `model.layers.${i}`);

/** The decoder of these sizes. */
export const llama = (spec: LlamaSpec): Decoder => ({
  vocabulary: spec.vocabulary,
  layers: spec.layers,
  cached: { heads: spec.keyValueHeads, size: spec.headSize },
  tensors: tensorsOf(spec),
  linears: blockNames(spec).flatMap((at) => Object.values(linearsOf(spec, at))),
  head: spec.tied ? EMBEDDING : HEAD,
  hidden(layers, inputs, past) {
    const { weights } = layers;
    const [batch, length] = inputs.shape;
    const embedded = gather(weights(EMBEDDING), inputs);
    const tables = tablesAt(spec, embedded, past);
    let h = reshape(embedded, [batch! * length!, spec.width]);
    blockNames(spec).forEach((at, layer) => {
      h = checkpoint(h, (rows) => {
        const own = { at, tables, rows, attend: attend.bind(undefined, past, layer) };
        const attended = add(rows, attention(spec, layers, own));
        return add(attended, feedforward(spec, layers, at, attended));
      });
    });
    return rmsNorm(h, weights('model.norm.weight'), spec.normEpsilon);
  },
});

/** The angles of the window's positions. */
function tablesAt(spec: LlamaSpec, embedded: Value, past: Past | undefined): RopeTables {
  if (!past) return ropeTables(spec, embedded.shape[1]!, embedded);
  const { cos, sin } = ropeTables(spec, past.capacity, embedded);
  return { cos: gather(cos, past.positions), sin: gather(sin, past.positions) };
}

interface AttentionInput {
  readonly at: string;
  readonly tables: RopeTables;
  attend(heads: Heads, scoring: Scoring): Value;
  /** (B * T, D) */
  readonly rows: Value;
}

function attention(
  spec: LlamaSpec,
  { weights, linear }: Layers,
  { at, tables: { cos, sin }, rows, attend }: AttentionInput,
): Value {
  const { heads, headSize, normEpsilon, queryKeyNorm } = spec;
  const { query, key, value, output } = linearsOf(spec, at);
  const length = cos.shape[0]!;
  const u = rmsNorm(rows, weights(`${at}.input_layernorm.weight`), normEpsilon);
  const parted = (layer: LinearLayer) =>
    reshape(linear(layer, u), [
      rows.shape[0]! / length,
      length,
      layer.outputs / headSize,
      headSize,
    ]);
  const normed = (heads: Value, name: string) =>
    queryKeyNorm ? rmsNorm(heads, weights(`${at}.self_attn.${name}.weight`), normEpsilon) : heads;
  const turned = (heads: Value) => rotary(transpose(heads, [0, 2, 1, 3]), cos, sin); // (B, A, T, d)
  const q = turned(normed(parted(query), 'q_norm'));
  const k = turned(normed(parted(key), 'k_norm'));
  const v = transpose(parted(value), [0, 2, 1, 3]);
  const scoring = { scale: 1 / Math.sqrt(headSize), window: spec.window ?? 0 };
  const o = attend({ q, k, v }, scoring);
  const joined = reshape(transpose(o, [0, 2, 1, 3]), [rows.shape[0]!, heads * headSize]);
  return linear(output, joined);
}

function feedforward(spec: LlamaSpec, { weights, linear }: Layers, at: string, h: Value): Value {
  const { gate, up, down } = linearsOf(spec, at);
  const u = rmsNorm(h, weights(`${at}.post_attention_layernorm.weight`), spec.normEpsilon);
  return linear(down, swiglu(linear(gate, u), linear(up, u)));
}

interface RopeTables {
  readonly cos: Value;
  readonly sin: Value;
}

/** Cosines and sines of the angles of positions 0 .. length - 1, both (length, headSize / 2), of the type of `like`. */
function ropeTables(
  { rope, headSize }: Pick<LlamaSpec, 'rope' | 'headSize'>,
  length: number,
  like: Value,
): RopeTables {
  const { base, scaling } = rope;
  const half = headSize / 2;
  const frequencies = Array.from({ length: half }, (_, i) =>
    Math.fround(stretch(Math.fround(1 / Math.fround(base ** ((2 * i) / headSize))), scaling)),
  );
  const table = (f: (angle: number) => number) => {
    const elements = new Float32Array(length * half);
    for (let t = 0; t < length; t++) {
      for (let i = 0; i < half; i++) elements[t * half + i] = f(Math.fround(t * frequencies[i]!));
    }
    return like.graph.constant({ dtype: like.dtype, shape: [length, half] }, elements);
  };
  return { cos: table(Math.cos), sin: table(Math.sin) };
}

/** Lower frequencies for longer texts; Llama 3 leaves fast ones as they are and blends in between. */
function stretch(frequency: number, scaling: RopeScaling | undefined): number {
  if (!scaling) return frequency;
  const { factor } = scaling;
  if (scaling.type === 'linear') return frequency / factor;
  const { lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = scaling;
  const turns = (originalContext * frequency) / (2 * Math.PI);
  if (turns > high) return frequency;
  if (turns < low) return frequency / factor;
  const blend = (turns - low) / (high - low);
  return ((1 - blend) * frequency) / factor + blend * frequency;
}
