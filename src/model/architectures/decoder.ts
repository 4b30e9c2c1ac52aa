/**
 * The common part of decoders with Hugging Face's tensor names: the loop over blocks, linear layers that adapters can
 * extend, the last layer over a large vocabulary, losses. `llama.ts` and `gpt2.ts` define embeddings, norms and blocks.
 */
import type { DecoderSpec, Precision } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import {
  add,
  checkpoint,
  concat,
  crossEntropy,
  flatten,
  gemm,
  groupedAttention,
  piecedCrossEntropy,
  reshape,
  slice,
  slicedCrossEntropy,
  transpose,
} from '../graph/verbs.ts';
import type { Decoding, FrozenTensor, Model, TensorSpec, Weights } from './architecture.ts';
import { paddedShared } from './experts.ts';

/** One linear layer: its tensors are `<name>.weight` and, with a bias, `<name>.bias`. */
export interface LinearLayer {
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly bias: boolean;
  /** Orientation of the weight: [out, in] in most files, [in, out] in GPT-2. */
  readonly stored: 'out-in' | 'in-out';
  /** The side that runs along the feed-forward width, if any. */
  readonly inner?: 'inputs' | 'outputs';
}

/** Gives a decoder its weights and applies its linear layers. */
export interface Layers {
  readonly weights: Weights;
  /** Applies a layer to rows (N, inputs); returns (N, outputs). */
  linear(layer: LinearLayer, rows: Value): Value;
  /** Receives the load-balancing loss of each block with experts, in training. */
  readonly balance?: Value[] | undefined;
}

/** Queries (B, A, T, d), and keys and values (B, K, T, d), of one layer. */
export interface Heads {
  readonly q: Value;
  readonly k: Value;
  readonly v: Value;
}

export interface Scoring {
  readonly scale: number;
  /** Attention window in tokens, including the current one. 0 means full attention. */
  readonly window: number;
}

/** The earlier part of a text that a window of tokens continues. Without it, the window starts at position 0. */
export interface KvCache {
  /** Maximum length of a text, in tokens. */
  readonly capacity: number;
  /** Positions of the window's tokens, i32 (T). */
  readonly positions: Value;
  /** Returns the attention output of the window's queries over the whole text in a layer, (B, A, T, d). */
  attend(layer: number, heads: Heads, scoring: Scoring): Value;
}

/** A decoder-only language model up to its logits. */
export interface Decoder extends Pick<Decoding, 'vocabulary' | 'layers' | 'cached'> {
  /** The tensors, with the names in files, in any order. */
  readonly tensors: readonly TensorSpec[];
  /** All linear layers between the embeddings and the last norm, in order. */
  readonly linears: readonly LinearLayer[];
  /** Name of the last layer's weight, [V, width]; the token embeddings if the two are tied. */
  readonly head: string;
  /** Returns the output of the last norm, (B * T, width), for tokens (B, T). */
  hidden(layers: Layers, inputs: Value, cache?: KvCache): Value;
}

/** Maximum logits in memory at a time: 32 MiB. */
const MOST_LOGITS = 2 ** 23;

/** Rows of a quantized last layer that are widened to f32 at a time. */
const HEAD_ROWS = 2 ** 14;

/** The specifics of a family of decoders. `at` is the prefix of the tensor names of a block. */
export interface DecoderFamily {
  /** Prefix of the names of all blocks, before the block number. */
  readonly blocks: string;
  /** Name of the token embeddings. */
  readonly tokens: string;
  readonly cached: Decoder['cached'];
  /** Attention window; see `Scoring`. */
  readonly window: number;
  /** Tensors outside the blocks, without token embeddings and the last layer. */
  readonly others: readonly TensorSpec[];
  /** Tensors of a block. */
  tensorsOf(at: string): readonly TensorSpec[];
  /** Tensors and linear layers of the experts of all blocks, if the model has experts. */
  expertsOf?(blocks: readonly string[]): Pick<Decoder, 'tensors' | 'linears'> | undefined;
  /** Linear layers of a block; `output` follows attention. */
  linearsOf(at: string): Readonly<Record<string, LinearLayer>> & { readonly output: LinearLayer };
  open(layers: Layers, inputs: Value, cache: KvCache | undefined): OpenFamily;
}

/** A family opened in a graph. Rows are (B * T, D). */
interface OpenFamily {
  /** (B, T, D) */
  readonly embedded: Value;
  heads(at: string, rows: Value): Heads;
  feedforward(at: string, rows: Value): Value;
  lastNorm(rows: Value): Value;
}

const HEAD = 'lm_head.weight';

/** Builds a decoder: embeddings, blocks of attention and feed-forward layers, a last norm and a last layer. */
export function decoderFrom(spec: DecoderSpec, family: DecoderFamily): Decoder {
  const { vocabulary, layers, width, deviation, tied } = spec;
  const { cached, tokens, linearsOf, window } = family;
  const names = Array.from({ length: layers }, (_, i) => `${family.blocks}.${i}`);
  const table = { shape: [vocabulary, width], start: { deviation } } as const;
  const scoring = { scale: 1 / Math.sqrt(cached.size), window };
  const shared: readonly TensorSpec[] = [
    { name: tokens, ...table },
    ...family.others,
    ...names.flatMap(family.tensorsOf),
    ...(tied ? [] : [{ name: HEAD, ...table }]),
  ];
  const experts = family.expertsOf?.(names);
  return {
    vocabulary,
    layers,
    cached,
    tensors: experts ? [...paddedShared(shared), ...experts.tensors] : shared,
    linears: [...names.flatMap((at) => Object.values(linearsOf(at))), ...(experts?.linears ?? [])],
    head: tied ? tokens : HEAD,
    hidden(layers, inputs, cache) {
      const { embedded, heads, feedforward, lastNorm } = family.open(layers, inputs, cache);
      const [batch, length] = inputs.shape;
      let h = reshape(embedded, [batch! * length!, width]);
      names.forEach((at, layer) => {
        h = checkpoint(h, (rows) => {
          const { q, k, v } = heads(at, rows);
          const o = cache
            ? cache.attend(layer, { q, k, v }, scoring)
            : groupedAttention(q, k, v, scoring);
          const { output } = linearsOf(at);
          const joined = reshape(transpose(o, [0, 2, 1, 3]), [rows.shape[0]!, output.inputs]);
          const attended = add(rows, layers.linear(output, joined));
          return add(attended, feedforward(at, attended));
        });
      });
      return lastNorm(h);
    },
  };
}

/** Returns the tensors of a linear layer. */
export function linearTensors(
  { name, inputs, outputs, bias, stored, inner }: LinearLayer,
  deviation: number,
): readonly TensorSpec[] {
  const shape = stored === 'out-in' ? [outputs, inputs] : [inputs, outputs];
  const along = inner && { inner: (inner === 'outputs') === (stored === 'out-in') ? 0 : 1 };
  const weight = { name: `${name}.weight`, shape, start: { deviation }, abreast: 1, ...along };
  if (!bias) return [weight];
  const cut = inner === 'outputs' && { inner: 0 };
  return [weight, { name: `${name}.bias`, shape: [outputs], start: 'zeros', ...cut }];
}

/**
 * Returns a decoder's tensors as frozen ones: linear layers in `precision`, embeddings and the last layer in at least
 * 8 bits (as in llama.cpp), norms, biases and positions in f32.
 */
export function frozenDecoder(
  { tensors, linears, head }: Decoder,
  precision: Precision,
): readonly FrozenTensor[] {
  if (precision === 'f32') return tensors.map(({ name, shape }) => ({ name, shape }));
  const layers = new Set(linears.map(({ name }) => `${name}.weight`));
  const table = precision === 'q4' ? 'q8' : precision;
  const rows = tensors.find(({ name }) => name === head)!.shape[0];
  return tensors.map(({ name, shape }) => {
    if (layers.has(name)) return { name, shape, precision };
    const isTable = shape.length === 2 && shape[0] === rows;
    return isTable ? { name, shape, precision: table } : { name, shape };
  });
}

/** Returns the layers with nothing but their weights applied. */
export const plainLayers = (weights: Weights): Layers => ({
  weights,
  linear: ({ name, bias, stored }, rows) =>
    gemm(rows, weights(`${name}.weight`), {
      transB: stored === 'out-in',
      c: bias ? weights(`${name}.bias`) : undefined,
    }),
});

/** Returns logits (B * T, V). */
export const decoderLogits = (decoder: Decoder, layers: Layers, inputs: Value): Value =>
  headLogits(decoder, layers, decoder.hidden(layers, inputs));

/** Returns logits (N, V) for outputs of the last norm. A quantized last layer is widened piece by piece. */
export function headLogits({ head }: Decoder, { weights }: Layers, hidden: Value): Value {
  const weight = weights(head);
  const [vocabulary] = weight.shape;
  const product = weight.graph.product?.(hidden, weight);
  if (product) return product;
  if (!weight.graph.partsOf(weight)) return gemm(hidden, weight, { transB: true });
  const pieces = Array.from({ length: Math.ceil(vocabulary! / HEAD_ROWS) }, (_, i) => {
    const end = Math.min(vocabulary!, (i + 1) * HEAD_ROWS);
    return gemm(hidden, slice(weight, 0, i * HEAD_ROWS, end), { transB: true });
  });
  return concat([pieces[0]!, ...pieces.slice(1)], 1);
}

/** Returns the cross-entropy (B, T) of the next tokens, with at most 32 MiB of logits in memory at a time. */
export function decoderLosses(
  decoder: Decoder,
  layers: Layers,
  { inputs, targets }: { readonly inputs: Value; readonly targets: Value },
): Value {
  const { vocabulary, head } = decoder;
  const hidden = decoder.hidden(layers, inputs);
  const weight = layers.weights(head);
  const flat = flatten(targets);
  const tokens = flat.shape[0]!;
  if (weight.graph.partsOf(weight)) {
    const rows = Math.max(1, Math.min(HEAD_ROWS, Math.floor(MOST_LOGITS / tokens)));
    return reshape(piecedCrossEntropy(hidden, weight, flat, rows), inputs.shape);
  }
  const slices = Math.ceil((tokens * vocabulary) / MOST_LOGITS);
  const losses =
    slices === 1
      ? crossEntropy(gemm(hidden, weight, { transB: true }), flat)
      : slicedCrossEntropy(hidden, weight, flat, Math.ceil(tokens / slices));
  return reshape(losses, inputs.shape);
}

/** Returns a model in which all tensors of a decoder are trained. */
export const decoderModel = (decoder: Decoder): Model => ({
  tensors: decoder.tensors,
  predict: (weights, inputs) => decoderLogits(decoder, plainLayers(weights), inputs),
  losses(weights, batch, isTraining) {
    const balance: Value[] = [];
    const layers = { ...plainLayers(weights), balance: isTraining ? balance : undefined };
    return balance.reduce(add, decoderLosses(decoder, layers, batch));
  },
});
