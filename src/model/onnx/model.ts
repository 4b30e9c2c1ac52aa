/** An ONNX model as plain data, the subset that training graphs need; `encode.ts` serializes it. */

/** Element types, by the names used throughout `src/model`. */
export type DType = 'f16' | 'f32' | 'f64' | 'i64' | 'i32' | 'i8' | 'u8' | 'bool';

/** The format's numbers for them. */
export const ELEMENT_TYPE: Readonly<Record<DType, number>> = {
  f32: 1,
  u8: 2,
  i8: 3,
  i32: 6,
  i64: 7,
  bool: 9,
  f16: 10,
  f64: 11,
};

/** Row-major dimensions; `[]` is a scalar. */
export type Shape = readonly number[];

export interface OnnxTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Little-endian elements. */
  readonly bytes: Uint8Array;
}

/** A named graph input or output; a dimension given as text is open until run time. */
export interface OnnxValue {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly (number | string)[];
}

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly text: string }
  | { readonly ints: readonly number[] }
  | { readonly graph: OnnxGraph };

export interface OnnxNode {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, OnnxAttribute>>;
  /** Empty for the standard operators. */
  readonly domain: '' | 'com.microsoft';
}

export interface OnnxGraph {
  readonly name: string;
  readonly nodes: readonly OnnxNode[];
  readonly constants: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}
