/** The interface of a model architecture: its tensors, their initialization, predictions, and the losses of a batch. */
import type { ModelSpec, Precision, Tiers } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/rule.ts';
import type { Shape } from '../onnx.ts';

/** One tensor of a model: name, shape and how it starts. */
export interface TensorSpec {
  readonly name: string;
  readonly shape: Shape;
  /** All zeros, all ones, draws around 0 with this standard deviation, or even ones between -bound and bound. */
  readonly start: 'zeros' | 'ones' | { readonly deviation: number } | { readonly bound: number };
  /** On hidden matrices only, not embeddings or the last layer: how many matrices its columns hold side by side. */
  readonly abreast?: number;
  /** The axis along which it is as long as a feed-forward layer is wide: tiers hold the first part of that. */
  readonly inner?: number;
  /** Which slice of width it is of; all else is in slice 0, which every tier has. Slice after slice. */
  readonly slice?: number;
}

/** One tensor that is data to the graph. */
export interface FrozenTensor extends Pick<TensorSpec, 'name' | 'shape' | 'inner'> {
  /** Default f32. In fewer bits it is widened wherever it is read; leave norms and biases in f32. */
  readonly precision?: Precision;
}

/**
 * Tokens (B, T) and the token after each (B, T), i32; feature rows (B, F) and numbers (B); windows of a series (B, T,
 * C) and the steps after them (B, H, C); or pictures (B, S, S, C) from -1 to 1 and classes, i32 (B).
 */
export interface Batch {
  readonly inputs: Value;
  readonly targets: Value;
  /** If only some tokens count: 1 for each target that does, else 0 (B, T), as a float. Losses are then per token. */
  readonly counted?: Value;
}

/** The model's tensors by name, as values of a graph. */
export type Weights = (name: string) => Value;

/** Programs that read a text piece by piece and leave behind what the next piece needs of it: see `decoding.ts`. */
export interface Decoding {
  readonly vocabulary: number;
  readonly layers: number;
  /** Of keys and values in every layer: heads, and numbers in each. */
  readonly cached: { readonly heads: number; readonly size: number };
  /** A program for texts of at most `capacity` tokens, of which it reads so many at a time. */
  compile(sizes: { readonly capacity: number; readonly tokens: number }): Uint8Array;
  /** The same of tensors that are kept in parts: which ones those are, and how a tensor is joined from its own. */
  inParts(tensors: readonly FrozenTensor[], join: (weights: Weights) => Weights): Decoding;
}

/** One model: an architecture at given sizes. */
export interface Model {
  /** The trained ones: parameters, gradients and payloads hold these alone. */
  readonly tensors: readonly TensorSpec[];
  /** Tensors that are data to the graph, as the corpus is: read under their names, never changed. */
  readonly frozen?: readonly FrozenTensor[];
  /** Logits (B * T, V) of tokens, one number a row (B) of features, forecasts (B, H, C, Q), or logits (B, classes). */
  predict(weights: Weights, inputs: Value): Value;
  /** Loss per row of the batch; training minimizes the mean. */
  losses(weights: Weights, batch: Batch): Value;
  /** 1 for each row of the batch that the model gets right, else 0, as floats: where a row is right or wrong. */
  hits?(weights: Weights, batch: Batch): Value;
  /** Where texts can be continued without reading them again for every token. */
  readonly decoding?: Decoding;
}

/** Windows of `context` tokens, each below `vocabulary`; the target is the token after. */
export interface TokenForm {
  readonly kind: 'tokens';
  readonly vocabulary: number;
  readonly context: number;
}

/** Rows of so many numbers, and one number to predict for each. */
export interface RowForm {
  readonly kind: 'rows';
  readonly features: number;
}

/** Windows of a series: so many steps of so many numbers each, and the steps after them to predict. */
export interface SeriesForm {
  readonly kind: 'series';
  readonly channels: number;
  readonly context: number;
  readonly horizon: number;
}

/** Square pictures, of one of so many classes each. */
export interface ImageForm {
  readonly kind: 'images';
  readonly pixels: number;
  readonly channels: number;
  readonly classes: number;
}

/** What a model reads: windows of tokens, rows of numbers, windows of a series, or pictures. */
export type DataForm = TokenForm | RowForm | SeriesForm | ImageForm;

/** A user-defined model: its input format, its tensors, and the losses of a batch, written with the graph's `ops`. */
export interface CustomModel extends Model {
  readonly architecture: 'own';
  readonly data: DataForm;
  /** Where it is one of several tiers: which, and the model of another one. */
  readonly tiers?: Tiers;
  ofTier?(own: number): CustomModel;
}

/** A built-in architecture. A new one is such an object, a line in `table.ts`, and its spec in `model-spec.ts`. */
export interface Architecture<S extends ModelSpec> {
  build(spec: S): Model;
  /** What a model of these sizes reads. */
  dataForm(spec: S): DataForm;
  /** Throws a `ConfigError` if sizes, each of them whole and positive, do not go together. */
  check?(spec: S): void;
}
