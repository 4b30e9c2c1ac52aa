/** The interface of a model architecture: its tensors, their initialization, predictions, and the losses of a batch. */
import type { ModelSpec, Precision, Tiers } from '../../run/spec/model-spec.ts';
import type { Feeds } from '../feeds.ts';
import type { Value } from '../graph/rule.ts';
import type { Shape } from '../onnx.ts';

/** A trained tensor of a model: name, shape and initialization. */
export interface TensorSpec {
  readonly name: string;
  readonly shape: Shape;
  /** Zeros, ones, normal draws with this standard deviation, or uniform draws between -bound and bound. */
  readonly start: 'zeros' | 'ones' | { readonly deviation: number } | { readonly bound: number };
  /** Number of matrices side by side in its columns; set on hidden matrices only (not embeddings or the last layer). */
  readonly abreast?: number;
  /** The axis along the feed-forward width, if any. A tier has the first part of it. */
  readonly inner?: number;
  /** Index of the slice it belongs to; default 0, which every tier has. */
  readonly slice?: number;
  /** Set on running statistics: the share of the way to the batch's statistic that each step goes. */
  readonly rate?: number;
}

/** A tensor that is an input of the graph and not trained. */
export interface FrozenTensor extends Pick<TensorSpec, 'name' | 'shape' | 'inner'> {
  /** Precision; default f32. Lower precisions are widened at every use; keep norms and biases in f32. */
  readonly precision?: Precision;
}

/**
 * Inputs and targets of a batch: tokens (B, T) and next tokens (B, T), i32; feature rows (B, F) and numbers (B);
 * windows of a series (B, T, C) and the following steps (B, H, C); or pictures (B, S, S, C) from -1 to 1 and classes,
 * i32 (B).
 */
export interface Batch {
  readonly inputs: Value;
  readonly targets: Value;
  /** Mask of the targets that count, as floats 0 or 1 (B, T); absent if all do. With a mask, losses are per token. */
  readonly counted?: Value;
}

/** Returns a tensor of the model by name, as a value of the graph. */
export type Weights = (name: string) => Value;

/** Tensors for programs with arranged weights. */
export interface Arranged {
  readonly feeds: Feeds;
  /** Returns the external constants of programs that read one token. */
  constants(): Feeds;
}

/** Programs that read a text in pieces, with a cache of keys and values; see `decoding.ts`. */
export interface Decoding {
  readonly vocabulary: number;
  readonly layers: number;
  /** Keys and values cached per layer and position: number of heads, and size of each. */
  readonly cached: { readonly heads: number; readonly size: number };
  /** Compiles a program for texts of at most `capacity` tokens that reads `tokens` per call. */
  compile(sizes: {
    readonly capacity: number;
    readonly tokens: number;
    readonly isArranged?: boolean;
  }): Uint8Array;
  /** Arranges all tensors for programs compiled with `isArranged`. */
  arrange(feeds: Feeds): Arranged;
  /** Returns the same for tensors stored in slices: the stored tensors, and how to join them. */
  inParts(tensors: readonly FrozenTensor[], join: (weights: Weights) => Weights): Decoding;
}

/** A model: an architecture with given sizes. */
export interface Model {
  /** The trained tensors; parameters, gradients and payloads contain only these. */
  readonly tensors: readonly TensorSpec[];
  /** Frozen tensors: inputs of the graph, like the corpus, that never change. */
  readonly frozen?: readonly FrozenTensor[];
  /**
   * Returns logits (B * T, V) for tokens, one number per feature row (B), forecasts (B, H, C, Q) or logits (B,
   * classes).
   */
  predict(weights: Weights, inputs: Value): Value;
  /** Returns the loss of each row of the batch; training minimizes the mean. Norms of batches differ in training. */
  losses(weights: Weights, batch: Batch, isTraining?: boolean): Value;
  /** Returns 1 for each row that the model classifies correctly, else 0, as floats; classifiers only. */
  hits?(weights: Weights, batch: Batch): Value;
  /** Decoding with a cache of keys and values, for models that support it. */
  readonly decoding?: Decoding;
}

/** Windows of `context` tokens, each below `vocabulary`; the target is the token after. */
export interface TokenForm {
  readonly kind: 'tokens';
  readonly vocabulary: number;
  readonly context: number;
}

/** Rows of `features` numbers, with one number to predict for each. */
export interface RowForm {
  readonly kind: 'rows';
  readonly features: number;
}

/** Windows of `context` steps with `channels` numbers each, and the next `horizon` steps to predict. */
export interface SeriesForm {
  readonly kind: 'series';
  readonly channels: number;
  readonly context: number;
  readonly horizon: number;
}

/** Square pictures, each of one class. */
export interface ImageForm {
  readonly kind: 'images';
  readonly pixels: number;
  readonly channels: number;
  readonly classes: number;
}

/** The data that a model reads: windows of tokens, rows of numbers, windows of a series, or pictures. */
export type DataForm = TokenForm | RowForm | SeriesForm | ImageForm;

/** A user-defined model: its data form, its tensors, and its losses, written with the graph's `ops`. */
export interface CustomModel extends Model {
  readonly architecture: 'own';
  readonly data: DataForm;
  /** The tier that the model is, if it has tiers; `ofTier` returns another one. */
  readonly tiers?: Tiers;
  ofTier?(own: number): CustomModel;
}

/** A built-in architecture. To add one: an object of this type, a line in `table.ts`, a spec in `model-spec.ts`. */
export interface Architecture<S extends ModelSpec> {
  build(spec: S): Model;
  /** Returns the data form of a model with these sizes. */
  dataForm(spec: S): DataForm;
  /** Throws a ConfigError if sizes, each valid alone, do not fit together. */
  check?(spec: S): void;
}
