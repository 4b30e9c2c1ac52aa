/** Tensors for the inputs of a model, for trainer threads and readers of text. */

/** Element arrays; u16 holds the bits of f16 numbers. */
export type Elements =
  | Float32Array
  | Uint16Array
  | Int32Array
  | Int8Array
  | Uint8Array
  | BigInt64Array;

/** A tensor for a model input. */
export interface Feed {
  readonly elements: Elements;
  readonly shape: readonly number[];
}

/** Tensors by input name. */
export type Feeds = Readonly<Record<string, Feed>>;
