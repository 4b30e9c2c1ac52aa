/**
 * Low-rank adapters (LoRA, arXiv 2106.09685), which fine-tune a published decoder with frozen weights. Each adapted
 * linear layer x W gets two small matrices, A [rank, inputs] and B [outputs, rank]:
 *
 *   y = x W + bias + (alpha / rank) (x A^T) B^T
 *
 * Names, orientation and initial values are those of Hugging Face's PEFT: A is uniform in +-1 / sqrt(inputs), B zero.
 * GPT-2 has queries, keys and values in one layer, which then has one A and one B. No dropout.
 */
import { ConfigError } from '../../base/errors.ts';
import type { DecoderSpec, Precision } from '../../run/spec/model-spec.ts';
import type { CustomModel, TensorSpec, Weights } from '../architectures/architecture.ts';
import {
  decoderLogits,
  decoderLosses,
  frozenDecoder,
  type Layers,
  type LinearLayer,
  plainLayers,
} from '../architectures/decoder.ts';
import { sliceModel } from '../architectures/slices.ts';
import { decoderOf, ofTier } from '../architectures/table.ts';
import { decodingOf } from '../decoding.ts';
import { gemm } from '../graph/verbs.ts';

/** The layers that get an adapter, and its size. Both matrices are trained. */
export interface LoraSpec {
  readonly rank: number;
  /** The adapter's output is scaled by alpha / rank. */
  readonly alpha: number;
  /**
   * `qv`, `attention`, `all-linear`, or a comma-separated list of layer name endings (`q_proj`, `mlp.down_proj`), with
   * `*` for any characters (`layers.1*.q_proj`), matched like PEFT does.
   */
  readonly targets: string;
}

/** Layer names of each keyword. In GPT-2 queries, keys and values are one layer. */
const words: { readonly [A in DecoderSpec['architecture']]: Readonly<Record<string, string>> } = {
  llama: { qv: 'q_proj,v_proj', attention: 'q_proj,k_proj,v_proj,o_proj', 'all-linear': '*' },
  gpt2: { qv: 'attn.c_attn', attention: 'attn.c_attn,attn.c_proj', 'all-linear': '*' },
};

/** Axis along the feed-forward width: 0 of B if the layer's outputs lie along it, 1 of A if its inputs do. */
const ALONG = [{ inner: 0 }, { inner: 1 }] as const;

/** A layer with its adapter. */
interface Adapted {
  readonly layer: LinearLayer;
  readonly a: TensorSpec;
  readonly b: TensorSpec;
}

/** Returns the decoder with trainable adapters and frozen weights in `precision`. */
export function loraModel(
  spec: DecoderSpec,
  adapter: LoraSpec,
  precision: Precision = 'f32',
): CustomModel {
  const { tiers } = spec;
  if (!tiers) return adapted(spec, adapter, precision);
  const tierModel = { ...adapted(ofTier(spec), adapter, precision, spec.ffn), tiers };
  const ofOther = (tier: number) =>
    loraModel({ ...spec, tiers: { ...tiers, tier: tier } }, adapter, precision);
  return { ...sliceModel(tierModel, tiers, spec.ffn), ofTier: ofOther };
}

/** Returns the adapted decoder; for a tier, `ffn` is the feed-forward width of the full model. */
function adapted(
  spec: DecoderSpec,
  adapter: LoraSpec,
  precision: Precision,
  ffn?: number,
): CustomModel {
  const decoder = decoderOf(spec);
  const adapted = adaptedLayers(spec, adapter, ffn);
  const layers = loraLayers(spec, adapter);
  const tensors = [...adapted.map(({ a }) => a), ...adapted.map(({ b }) => b)];
  const frozen = frozenDecoder(decoder, precision);
  return {
    architecture: 'own',
    data: { kind: 'tokens', vocabulary: spec.vocabulary, context: spec.context },
    tensors,
    frozen,
    predict: (weights, inputs) => decoderLogits(decoder, layers(weights), inputs),
    losses: (weights, batch) => decoderLosses(decoder, layers(weights), batch),
    decoding: decodingOf(decoder, { tensors: [...frozen, ...tensors], layers }),
  };
}

/** Returns the layers of a decoder with these adapters applied. */
export function loraLayers(spec: DecoderSpec, adapter: LoraSpec): (weights: Weights) => Layers {
  const adapted = new Map(adaptedLayers(spec, adapter).map((one) => [one.layer.name, one]));
  const alpha = adapter.alpha / adapter.rank;
  return (weights) => {
    const plain = plainLayers(weights);
    return {
      weights,
      linear(layer, rows) {
        const out = plain.linear(layer, rows);
        const matrices = adapted.get(layer.name);
        if (!matrices) return out;
        const low = gemm(rows, weights(matrices.a.name), { transB: true }); // (N, rank)
        return gemm(low, weights(matrices.b.name), { transB: true, alpha, c: out });
      },
    };
  };
}

/** Returns the tensors of all adapters, by PEFT's names. */
export const loraTensors = (spec: DecoderSpec, adapter: LoraSpec): readonly TensorSpec[] =>
  adaptedLayers(spec, adapter).flatMap(({ a, b }) => [a, b]);

/** Adds its adapter to a weight of the decoder; `tensors` returns the values of adapter tensors. */
export type Merge = (base: Float32Array, tensors: (name: string) => Float32Array) => Float32Array;

/** Returns the merge functions of all adapted weights, by the weights' names in the decoder. */
export function mergeLora(spec: DecoderSpec, adapter: LoraSpec): ReadonlyMap<string, Merge> {
  const { rank, alpha } = adapter;
  return new Map(
    adaptedLayers(spec, adapter).map(({ layer, a, b }) => [
      `${layer.name}.weight`,
      (base, tensors) =>
        merged(layer, rank, alpha / rank, { base, a: tensors(a.name), b: tensors(b.name) }),
    ]),
  );
}

/** Returns the names of the layers that have an adapter. */
export const loraTargets = (spec: DecoderSpec, adapter: LoraSpec): readonly string[] =>
  adaptedLayers(spec, adapter).map(({ layer }) => layer.name);

interface Numbers {
  readonly base: Float32Array;
  readonly a: Float32Array;
  readonly b: Float32Array;
}

/** Returns W + scale B A, with each value rounded once. */
function merged(
  { inputs, outputs, stored }: LinearLayer,
  rank: number,
  scale: number,
  { base, a, b }: Numbers,
): Float32Array {
  const values = new Float32Array(base.length);
  const [rowStep, columnStep] = stored === 'out-in' ? [inputs, 1] : [1, outputs];
  const row = new Float64Array(inputs);
  for (let o = 0; o < outputs; o++) {
    row.fill(0);
    for (let r = 0; r < rank; r++) {
      const factor = b[o * rank + r]! * scale;
      for (let i = 0; i < inputs; i++) row[i]! += factor * a[r * inputs + i]!;
    }
    for (let i = 0; i < inputs; i++) {
      const at = o * rowStep + i * columnStep;
      values[at] = base[at]! + row[i]!;
    }
  }
  return values;
}

function adaptedLayers(
  spec: DecoderSpec,
  { rank, alpha, targets }: LoraSpec,
  ffn = spec.ffn,
): readonly Adapted[] {
  if (!Number.isFinite(alpha) || alpha <= 0) {
    throw new ConfigError('adapter/alpha', `alpha must be positive, not ${alpha}`);
  }
  return targetsOf(spec, targets).map((layer) => {
    const { name, inputs, outputs, inner } = layer;
    const most = Math.min(inputs, outputs);
    if (!Number.isSafeInteger(rank) || rank < 1 || rank > most) {
      throw new ConfigError(
        'adapter/rank',
        `rank ${rank} does not fit ${name}, which is ${inputs} x ${outputs}`,
        { hint: `choose a rank from 1 to ${most}` },
      );
    }
    const within = `base_model.model.${name}`;
    const a = `${within}.lora_A.weight`;
    const start = { bound: 1 / Math.sqrt(inner === 'inputs' ? ffn : inputs) };
    const b = `${within}.lora_B.weight`;
    return {
      layer,
      a: { name: a, shape: [rank, inputs], start, abreast: 1, ...(inner === 'inputs' && ALONG[1]) },
      b: {
        name: b,
        shape: [outputs, rank],
        start: 'zeros',
        abreast: 1,
        ...(inner === 'outputs' && ALONG[0]),
      },
    };
  });
}

/** Returns the layers that `targets` matches, in the decoder's order. */
function targetsOf(spec: DecoderSpec, targets: string): readonly LinearLayer[] {
  const { linears } = decoderOf(spec);
  const known = words[spec.architecture];
  const patterns = (Object.hasOwn(known, targets) ? known[targets]! : targets)
    .split(',')
    .map((pattern) => pattern.trim());
  for (const pattern of patterns) {
    if (linears.some(({ name }) => matches(name, pattern))) continue;
    throw new ConfigError(
      'adapter/targets',
      `no layer of the model is called ${JSON.stringify(pattern)}`,
      {
        hint: `use a layer name such as ${linears[0]!.name}, or qv, attention or all-linear`,
      },
    );
  }
  return linears.filter(({ name }) => patterns.some((pattern) => matches(name, pattern)));
}

/** Reports whether a layer's name matches a pattern, whole or after a dot. Linear time: patterns are untrusted. */
function matches(name: string, pattern: string): boolean {
  const [first = '', ...rest] = `.${pattern}`.split('*');
  const whole = `.${name}`;
  const last = rest.pop();
  if (last === undefined) return whole.endsWith(first);
  const end = whole.length - last.length;
  let at = whole.indexOf(first);
  if (at < 0 || !whole.endsWith(last)) return false;
  at += first.length;
  for (const part of rest) {
    const index = whole.indexOf(part, at);
    if (index < 0) return false;
    at = index + part.length;
  }
  return at <= end;
}
