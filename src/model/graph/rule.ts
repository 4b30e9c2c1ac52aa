/** The interface of an op rule: shape inference, emission of ONNX nodes, and the derivative. */
import type { DType, OnnxAttribute, Shape } from '../onnx.ts';
import type { Value, ValueType } from './value.ts';

export interface OpRule<A> {
  readonly infer: (inputs: readonly ValueType[], attributes: A) => readonly ValueType[];
  readonly emit: (emission: Emission<A>) => void;
  /** Gradients of the inputs, or in words why gradients stop here. */
  readonly derive: Derive<A> | string;
  /** Results after the first are kept for the derivative and have none of their own. */
  readonly saves?: true;
}

export type Derive<A> = (derivation: Derivation<A>) => readonly (Value | undefined)[];

/** One recorded op with the gradients of the loss by its results. */
export interface Derivation<A> {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly attributes: A;
  /** Gradient by the first result. */
  readonly grad: Value;
  /** Gradients by all results; undefined is zero. */
  readonly grads: readonly (Value | undefined)[];
  /** Whether anybody needs the gradient by input `i`. */
  wants(i: number): boolean;
}

/** Values by their ONNX names. */
export interface NamedValue extends ValueType {
  readonly name: string;
}

export interface Emission<A> {
  readonly inputs: readonly NamedValue[];
  readonly outputs: readonly NamedValue[];
  readonly attributes: A;
  readonly to: Emitter;
  /** Whether anybody reads output `i`. */
  uses(i: number): boolean;
}

/**
 * Whose kernels a graph is made of: onnxruntime's on the CPU (native or in WebAssembly), on CUDA, or on WebGPU, which has the fewest.
 * Results on different targets may differ in the last bits.
 */
export type Target = 'cpu' | 'cuda' | 'webgpu';

/** Sink for emitted ONNX nodes. */
export interface Emitter {
  readonly target: Target;
  /** Adds a node and names its only result, freshly unless `output` is given. */
  node(type: string, inputs: readonly string[], options?: NodeOptions): string;
  /** A tensor known while building; equal ones are kept once. */
  constant(dtype: DType, shape: Shape, elements: ArrayLike<number>): string;
}

export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
  readonly outputs?: readonly string[];
  readonly domain?: 'com.microsoft';
  /** A product that adds things up: in f32 also where products are not. */
  readonly exact?: boolean;
}

/** An op that is one ONNX node with the same inputs and results. */
export const direct =
  <A>(
    type: string,
    attributes: (attributes: A) => Readonly<Record<string, OnnxAttribute>> = () => ({}),
  ): OpRule<A>['emit'] =>
  (e) => {
    e.to.node(
      type,
      e.inputs.map(({ name }) => name),
      { attributes: attributes(e.attributes), outputs: e.outputs.map(({ name }) => name) },
    );
  };

/** One function per input, each called only when its gradient is needed. */
export const each =
  <A>(...partials: readonly ((derivation: Derivation<A>) => Value)[]): Derive<A> =>
  (derivation) =>
    partials.map((partial, i) => (derivation.wants(i) ? partial(derivation) : undefined));

/** An i64 constant, which is how ONNX takes shapes and axes. */
export const integers = (to: Emitter, values: readonly number[]): string =>
  to.constant('i64', [values.length], values);
