/**
 * Compiles a decoder to programs that continue a text: a call reads the next tokens and returns their keys and values,
 * which the caller stores for later calls. Tensors are inputs of their own, never copied.
 */

import type { Decoding, FrozenTensor, Weights } from './architectures/architecture.ts';
import {
  type Decoder,
  type Heads,
  headLogits,
  type KvCache,
  type Layers,
  plainLayers,
  type Scoring,
} from './architectures/decoder.ts';
import { arrange, openArranged } from './decoding-weights.ts';
import { createGraph, type Graph } from './graph/builder.ts';
import { lower } from './graph/lower.ts';
import type { Value } from './graph/rule.ts';
import {
  add,
  concat,
  expand,
  gather,
  greater,
  less,
  matmul,
  reshape,
  softmax,
  split,
  sub,
  where,
} from './graph/verbs.ts';
import type { Shape } from './onnx.ts';
import { encodeModel } from './onnx.ts';
import { openFrozen } from './precision.ts';

/** Numbers of tokens that programs read per call; a shorter rest is padded. */
export const PIECES = [64, 8, 1];

export interface DecodingOptions {
  /** Maximum length of a text, in tokens. */
  readonly capacity: number;
  /** Tokens per call; padding after the last one has no effect. */
  readonly tokens: number;
  /** All tensors that `layers` reads; default those of the decoder. */
  readonly tensors?: readonly FrozenTensor[];
  /** Whether tensors are arranged by `arrange`. */
  readonly isArranged?: boolean;
  /** Applies the linear layers, with adapters for example; default without. */
  readonly layers?: (weights: Weights) => Layers;
}

/** Returns the `Decoding` of a decoder. */
export const decodingOf = (
  decoder: Decoder,
  overrides: Pick<DecodingOptions, 'tensors' | 'layers'> = {},
): Decoding => ({
  vocabulary: decoder.vocabulary,
  layers: decoder.layers,
  cached: decoder.cached,
  compile: (sizes) => compileDecoding(decoder, { ...overrides, ...sizes }),
  arrange: (feeds) => arrange(decoder, overrides.tensors ?? decoder.tensors, feeds),
  inParts: (tensors, join) =>
    decodingOf(decoder, {
      tensors,
      layers: (weights) => (overrides.layers ?? plainLayers)(join(weights)),
    }),
});

/** Shape of `past.keys.<i>` and `past.values.<i>` of every layer i: (1, heads, capacity, size). */
export const cacheShape = ({ cached }: Pick<Decoding, 'cached'>, capacity: number): Shape => [
  1,
  cached.heads,
  capacity,
  cached.size,
];

/** Score of a masked position; its softmax weight underflows to zero. */
const NEVER = -1e9;

/**
 * Compiles the program. Inputs: tensors by name, tokens i32 (1, n), start i32 (1), the position of the first token,
 * last i32 (1), the index of the last real token, and `past.keys.<i>`, `past.values.<i>`, valid up to `start`. Outputs:
 * logits (1, V) after token `last`, and `keys.<i>`, `values.<i>` (1, heads, n, size), to store at their positions.
 */
export function compileDecoding(decoder: Decoder, options: DecodingOptions): Uint8Array {
  const { tokens, tensors = decoder.tensors, layers = plainLayers } = options;
  const graph = createGraph();
  const inputs = options.isArranged
    ? openArranged(graph, decoder, tensors, tokens)
    : new Map(tensors.map((tensor) => [tensor.name, openFrozen(graph, tensor, 'f32')] as const));
  const weights = (name: string): Value => {
    const tensor = inputs.get(name);
    if (!tensor) throw new TypeError(`the model has no tensor ${name}`);
    return tensor;
  };
  const applied = layers(weights);
  const text = graph.input('tokens', { dtype: 'i32', shape: [1, tokens] });
  const start = graph.input('start', { dtype: 'i32', shape: [1] });
  const last = graph.input('last', { dtype: 'i32', shape: [1] });
  const hidden = decoder.hidden(applied, text, openKvCache(graph, decoder, options, start));
  const lastHidden = gather(hidden, last);
  graph.output('logits', headLogits(decoder, applied, lastHidden));
  return encodeModel(lower(graph, 'decode', { target: 'cpu' }));
}

function openKvCache(
  graph: Graph,
  decoder: Decoder,
  { capacity, tokens }: DecodingOptions,
  start: Value,
): KvCache {
  const positions = add(count(graph, tokens), start);
  const masks = new Map<number, Value>();
  const maskOf = (window: number) => {
    const known = masks.get(window) ?? mask(graph, { capacity, positions, start, window });
    masks.set(window, known);
    return known;
  };
  const type = { dtype: 'f32', shape: cacheShape(decoder, capacity) } as const;
  return {
    capacity,
    positions,
    attend(layer, heads, { scale, window }) {
      const keys = graph.input(`past.keys.${layer}`, type);
      const values = graph.input(`past.values.${layer}`, type);
      graph.output(`keys.${layer}`, heads.k);
      graph.output(`values.${layer}`, heads.v);
      return attendBoth(heads, { keys, values }, { scale, mask: maskOf(window) });
    },
  };
}

/** Returns 0 .. length - 1 as a value. */
const count = (graph: Graph, length: number): Value =>
  graph.constant({ dtype: 'i32', shape: [length] }, [...Array(length).keys()]);

interface Seen {
  readonly capacity: number;
  readonly positions: Value;
  readonly start: Value;
  readonly window: number;
}

/** Returns the attention mask (n, capacity + n) of the call's tokens over stored positions and each other. */
function mask(graph: Graph, { capacity, positions, start, window }: Seen): Value {
  const tokens = positions.shape[0]!;
  const number = (fill: number) => graph.constant({ dtype: 'f32', shape: [] }, [fill]);
  const unless = (hidden: Value) => where(hidden, number(NEVER), number(0));
  const rows = reshape(positions, [tokens, 1]);
  const stored = reshape(count(graph, capacity), [1, capacity]);
  const fresh = reshape(positions, [1, tokens]);
  // stored positions from `start` on are empty, or belong to an earlier text
  const isEmpty = greater(stored, sub(reshape(start, [1, 1]), integer(graph, 1)));
  const empty = expand(unless(isEmpty), [tokens, capacity]);
  const before = concat([empty, unless(greater(fresh, rows))], 1);
  if (window === 0) return before;
  const first = sub(rows, integer(graph, window - 1));
  return add(before, unless(less(concat([stored, fresh], 1), first)));
}

const integer = (graph: Graph, value: number): Value =>
  graph.constant({ dtype: 'i32', shape: [] }, [value]);

/** Attention over stored and new keys; joins their scores, not the keys. */
function attendBoth(
  { q, k, v }: Heads,
  cache: { readonly keys: Value; readonly values: Value },
  { scale, mask }: Pick<Scoring, 'scale'> & { readonly mask: Value },
): Value {
  const [batch, queries, tokens, size] = q.shape;
  const heads = k.shape[1]!;
  const groups = queries! / heads;
  const capacity = cache.keys.shape[2]!;
  const rows = groups * tokens!;
  const stacked = reshape(q, [batch!, heads, rows, size!]);
  const scores = [cache.keys, k].map((keys) =>
    matmul(stacked, keys, { transB: true, alpha: scale }),
  );
  const joined = concat([scores[0]!, scores[1]!], 3);
  const grouped = reshape(joined, [batch!, heads, groups, tokens!, capacity + tokens!]);
  const shares = reshape(softmax(add(grouped, mask)), joined.shape);
  const [stored, fresh] = split(shares, 3, [capacity, tokens!]);
  return reshape(add(matmul(stored!, cache.values), matmul(fresh!, v)), q.shape);
}
