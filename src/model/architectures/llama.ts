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
import { ConfigError } from '../../base/errors.ts';
import type { LlamaSpec, RopeScaling } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import { gather, reshape, rmsNorm, rotary, swiglu, transpose } from '../graph/verbs.ts';
import type { TensorSpec } from './architecture.ts';
import {
  type Decoder,
  decoderFrom,
  type KvCache,
  type LinearLayer,
  linearTensors,
} from './decoder.ts';
import { expertNumbers, expertPrefix, expertTensors, mixture } from './experts.ts';

const TOKENS = 'model.embed_tokens.weight';

/** Throws a ConfigError if the numbers or the size of heads do not fit together. */
export function checkLlama({ heads, keyValueHeads, headSize }: LlamaSpec): void {
  if (heads % keyValueHeads !== 0) {
    throw new ConfigError(
      'model/heads',
      `${heads} heads cannot share ${keyValueHeads} key-value heads evenly`,
    );
  }
  if (headSize % 2 !== 0) {
    throw new ConfigError(
      'model/heads',
      `rotary positions need an even head size, not ${headSize}`,
    );
  }
}

/** Builds the decoder with these sizes. */
export function llama(spec: LlamaSpec): Decoder {
  const { width, headSize, deviation, normEpsilon, queryKeyNorm, experts } = spec;
  const linearsOf = (at: string) => blockLinears(spec, at);
  const norm = (name: string, size = width): TensorSpec => ({
    name: `${name}.weight`,
    shape: [size],
    start: 'ones',
  });
  return decoderFrom(spec, {
    blocks: 'model.layers',
    tokens: TOKENS,
    cached: { heads: spec.keyValueHeads, size: headSize },
    window: spec.window ?? 0,
    others: [norm('model.norm')],
    tensorsOf: (at) => [
      norm(`${at}.input_layernorm`),
      norm(`${at}.post_attention_layernorm`),
      ...(queryKeyNorm
        ? [norm(`${at}.self_attn.q_norm`, headSize), norm(`${at}.self_attn.k_norm`, headSize)]
        : []),
      ...Object.values(linearsOf(at)).flatMap((layer) => linearTensors(layer, deviation)),
    ],
    linearsOf,
    expertsOf: (names) =>
      experts && {
        tensors: expertTensors(experts, names, { width, start: { deviation } }, (at) =>
          Object.values(feedforwardLinears(spec, at)).flatMap((layer) =>
            linearTensors(layer, deviation),
          ),
        ),
        linears: expertNumbers(experts).flatMap((expert) =>
          names.flatMap((at) =>
            Object.values(feedforwardLinears(spec, `${expertPrefix(expert)}${at}`)),
          ),
        ),
      },
    open({ weights, linear, balance }, inputs, cache) {
      const embedded = gather(weights(TOKENS), inputs);
      const { cos, sin } = tablesAt(spec, embedded, cache);
      const length = cos.shape[0]!;
      const normed = (name: string, h: Value) => rmsNorm(h, weights(`${name}.weight`), normEpsilon);
      return {
        embedded,
        heads(at, rows) {
          const { query, key, value } = linearsOf(at);
          const u = normed(`${at}.input_layernorm`, rows);
          const parted = (layer: LinearLayer): Value => {
            const heads = layer.outputs / headSize;
            return reshape(linear(layer, u), [rows.shape[0]! / length, length, heads, headSize]);
          };
          const rotated = (layer: LinearLayer, name: string): Value => {
            const heads = parted(layer);
            const scaled = queryKeyNorm ? normed(`${at}.self_attn.${name}`, heads) : heads;
            return rotary(transpose(scaled, [0, 2, 1, 3]), cos, sin);
          };
          return {
            q: rotated(query, 'q_norm'),
            k: rotated(key, 'k_norm'),
            v: transpose(parted(value), [0, 2, 1, 3]),
          };
        },
        feedforward(at, rows) {
          const u = normed(`${at}.post_attention_layernorm`, rows);
          const perceptron = (name: string): Value => {
            const { gate, up, down } = feedforwardLinears(spec, name);
            return linear(down, swiglu(linear(gate, u), linear(up, u)));
          };
          if (!experts) return perceptron(at);
          return mixture(experts, { weights, layer: at, rows: u, balance }, perceptron);
        },
        lastNorm: (rows) => normed('model.norm', rows),
      };
    },
  });
}

const linearLayer = (
  name: string,
  inputs: number,
  outputs: number,
  bias: boolean,
): LinearLayer => ({ name, inputs, outputs, bias, stored: 'out-in' });

/** Returns the linear layers of a block, by role; with experts, those of attention alone. */
function blockLinears(spec: LlamaSpec, at: string) {
  const { width, heads, keyValueHeads, headSize, bias, experts } = spec;
  const linear = (part: string, inputs: number, outputs: number, biased: boolean): LinearLayer =>
    linearLayer(`${at}.self_attn.${part}`, inputs, outputs, biased);
  const { queryKeyValue, attentionOutput } = bias;
  return {
    query: linear('q_proj', width, heads * headSize, queryKeyValue),
    key: linear('k_proj', width, keyValueHeads * headSize, queryKeyValue),
    value: linear('v_proj', width, keyValueHeads * headSize, queryKeyValue),
    output: linear('o_proj', heads * headSize, width, attentionOutput),
    ...(experts ? {} : feedforwardLinears(spec, at)),
  };
}

/** Returns the linear layers of a feed-forward layer, or of an expert in its place. */
function feedforwardLinears({ width, ffn, bias: { feedforward } }: LlamaSpec, at: string) {
  const outer = (part: string): LinearLayer => ({
    ...linearLayer(`${at}.mlp.${part}`, width, ffn, feedforward),
    inner: 'outputs',
  });
  return {
    gate: outer('gate_proj'),
    up: outer('up_proj'),
    down: {
      ...linearLayer(`${at}.mlp.down_proj`, ffn, width, feedforward),
      inner: 'inputs' as const,
    },
  };
}

/** Returns the rotary tables for the positions of the window. */
function tablesAt(spec: LlamaSpec, embedded: Value, cache: KvCache | undefined): RopeTables {
  if (!cache) return ropeTables(spec, embedded.shape[1]!, embedded);
  const { cos, sin } = ropeTables(spec, cache.capacity, embedded);
  return { cos: gather(cos, cache.positions), sin: gather(sin, cache.positions) };
}

interface RopeTables {
  readonly cos: Value;
  readonly sin: Value;
}

/** Returns cosines and sines for positions 0 .. length - 1, both (length, headSize / 2), in the type of `like`. */
function ropeTables(
  { rope, headSize }: Pick<LlamaSpec, 'rope' | 'headSize'>,
  length: number,
  like: Value,
): RopeTables {
  const { base, scaling } = rope;
  const half = headSize / 2;
  const frequencies = Array.from({ length: half }, (_, i) =>
    Math.fround(
      scaledFrequency(Math.fround(1 / Math.fround(base ** ((2 * i) / headSize))), scaling),
    ),
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

/** Returns the rotary frequency for a longer context. `llama3` scaling keeps high frequencies and blends in between. */
function scaledFrequency(frequency: number, scaling: RopeScaling | undefined): number {
  if (!scaling) return frequency;
  const { factor } = scaling;
  if (scaling.type === 'linear') return frequency / factor;
  const { lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = scaling;
  const rotations = (originalContext * frequency) / (2 * Math.PI);
  if (rotations > high) return frequency;
  if (rotations < low) return frequency / factor;
  const blend = (rotations - low) / (high - low);
  return ((1 - blend) * frequency) / factor + blend * frequency;
}
